// @ts-check
"use strict";
/** One element's path through a kernel: what `kernel gemm --explain` says, for any row, column and k. */
(function (/** @type {typeof globalThis} */ root) {
  const MOST = 1 << 20;

  /** @param {Made} place @param {number[]} at */
  function number(place, at) {
    let value = place.zero;
    place.images.forEach((of, axis) => of.forEach((image, bit) => {
      if ((at[axis] >> bit) & 1) value = place.op === "xor" ? value ^ image : value + image;
    }));
    return value;
  }

  /** The steps of A, B or D in words. @type {Tcprobe["way"]["said"]} */
  function said(kernel, operand, [row, col, k]) {
    const { tile, stages, ways } = kernel, way = ways[operand], at = [row % tile[0], col % tile[1], k % tile[2]];
    const [down, across] = operand === "a" ? [row, k] : operand === "b" ? [k, col] : [row, col];
    const [line, place] = way.lines === "row" ? [down, across] : [across, down];
    const stage = String(Math.floor(k / tile[2]) % stages), first = String(k - at[2]);
    const text = (/** @type {Part} */ part) => typeof part === "string" ? part.replace("{stage}", stage).replace("{k}", first)
      : "global" in part ? `global: ${operand} + ${line} * ld${operand} + ${place * way.bytes}` : String(number(part, at));
    return way.steps.map((parts) => parts.map(text).join(""));
  }

  root.tcprobe = Object.assign(root.tcprobe || {}, { way: { said } });
  if (typeof document === "undefined") return;

  root.tcprobe.pages.way = function wayPage(data) {
    const { one, all, make } = root.tcprobe, boxes = all("#way-form input"), form = one("#way-form");

    /** What is chosen, or null where a box has no number. @returns {number[] | null} */
    function chosen() {
      const numbers = boxes.map((box) => (/^\d{1,7}$/.test(box.value) && Number(box.value) < MOST ? Number(box.value) : -1));
      return numbers.every((value) => value >= 0) ? numbers : null;
    }

    function show() {
      const at = chosen();
      one("#way-wrong").textContent = at ? "" : `Row, column and k are whole numbers from 0 to ${MOST - 1}.`;
      if (!at) return;
      const [row, col, k] = at, names = /** @type {Record<string, string>} */ ({ a: `A(${row}, ${k})`, b: `B(${k}, ${col})`, d: `D(${row}, ${col})` });
      for (const section of all("[data-way]")) {
        const operand = String(section.dataset.way);
        one("h2", section).textContent = names[operand];
        one("ol", section).replaceChildren(...said(data, operand, at).map((step) => {
          const line = make("li", step), byte = /\bbyte (\d+)\b/.exec(step);
          if (byte) line.append(make("span", ` (bank ${Math.floor(Number(byte[1]) / 4) % 32})`, "soft"));
          return line;
        }));
      }
      one("#way-command").textContent = `${data.command} --explain ${row} ${col} ${k}`;
    }

    function read() {
      const given = new URLSearchParams(location.hash.slice(1));
      let lost = false;
      for (const box of boxes) {
        const value = given.get(box.name);
        if (value === null) continue;
        if (/^\d{1,7}$/.test(value) && Number(value) < MOST) box.value = value;
        else lost = true;
      }
      show();
      if (lost) one("#way-wrong").textContent = "This page does not know part of its address and shows the default instead.";
    }

    form.hidden = false;
    form.addEventListener("submit", (event) => event.preventDefault());
    boxes.forEach((box) => box.addEventListener("input", () => {
      show();
      if (chosen()) history.replaceState(null, "", "#" + boxes.map((other) => `${other.name}=${Number(other.value)}`).join("&"));
    }));
    addEventListener("hashchange", read);
    read();
  };
})(globalThis);
