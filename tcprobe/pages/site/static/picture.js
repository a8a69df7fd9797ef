// @ts-check
"use strict";
/** A picture as it is drawn: its address, an SVG to download, a line to embed. */
(function (/** @type {typeof globalThis} */ root) {
  const tcprobe = root.tcprobe, { one, all, make, texts } = tcprobe;
  const HIGH = 20, MARGIN = 34, LETTER = 6.25, NS = "http://www.w3.org/2000/svg"; // as the SVGs of `emit` have it

  /** An element of an SVG: what is put into it is read as text. */
  function part(/** @type {string} */ name, /** @type {Record<string, string | number>} */ of, words = "") {
    const element = document.createElementNS(NS, name);
    for (const [attribute, value] of Object.entries(of)) element.setAttribute(attribute, String(value));
    element.textContent = words;
    return element;
  }

  /** The matrix of a grid in the colours that it has. @type {Tcprobe["svg"]} */
  function svg(grid, shades) {
    const style = getComputedStyle(document.documentElement), ink = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
    const { pieces, columns } = grid.block, { size } = grid, name = one("h1").textContent + " " + size.name;
    const step = Math.max(...pieces.flatMap((row) => row.map((piece) => (texts(piece).length * LETTER + 8) / piece.span)));
    const width = MARGIN + columns * step + 1, height = HIGH * (grid.rows.length + 1);
    const drawn = part("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "font-family": "monospace", "font-size": 10, "text-anchor": "middle", fill: ink("--ink") });
    const put = (/** @type {string} */ of, /** @type {Record<string, string | number>} */ where, words = "") => drawn.append(part(of, where, words));
    put("title", {}, name);
    put("rect", { width, height, fill: ink("--ground") });
    for (let col = 0; col < columns; col += Math.ceil(24 / step)) put("text", { x: MARGIN + (col + 0.5) * step, y: 14, fill: ink("--text") }, String(col));
    grid.rows.forEach((row, at) => {
      const y = HIGH * (at + 1);
      put("text", { x: MARGIN / 2, y: y + 14, fill: ink("--text") }, String(row));
      for (const piece of pieces[row]) {
        const x = MARGIN + piece.col * step, wide = piece.span * step, stripes = shades(piece.holders, piece.span, size);
        stripes.forEach((shade, number) => put("rect", { x: x + (number * (wide - 1)) / stripes.length, y, width: (wide - 1) / stripes.length, height: HIGH - 1, fill: ink("--c" + shade) }));
        const bit = piece.holders.length ? (piece.holders[0][1] * size.bits) % size.register : -1;
        if (bit === 0) put("path", { d: `M${x + 0.7} ${y}v${HIGH - 1}`, stroke: ink("--text"), "stroke-width": 1.4 });
        else if (bit * 2 >= size.register) put("path", { d: `M${x + wide - 1} ${y}h-5l5 5z`, fill: ink("--text") });
        put("text", { x: x + wide / 2, y: y + 14 }, texts(piece));
      }
    });
    return new XMLSerializer().serializeToString(drawn);
  }

  const safe = (/** @type {string} */ text) => text.replace(/&/g, "&amp;").replace(/"/g, "&quot;").replace(/</g, "&lt;");

  function download(/** @type {string} */ name, /** @type {string} */ text) {
    const to = make("a");
    to.href = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    to.download = name.replace(/[^\w.-]/g, "-");
    to.click();
    setTimeout(() => URL.revokeObjectURL(to.href), 1000);
  }

  /** Fill a place with the address, the line and the buttons; `plain`: a picture of the site shows the same. @type {Tcprobe["picture"]} */
  tcprobe.picture = function picture(place, grids, shades, plain) {
    const file = plain && document.querySelector("[data-layout]:not([hidden]) a[href*='svg/']"), name = one("h1").textContent, here = safe(location.href);
    const line = file ? `<a href="${here}"><img src="${safe(file.href)}" alt="${safe(name)}"></a>` : `<iframe src="${here}" title="${safe(name)}" width="100%" height="700"></iframe>`;
    const buttons = grids.map((grid, at) => {
      const button = make("button", `SVG of ${grid.size.name}` + (grid.block.title && ", " + grid.block.title));
      button.addEventListener("click", () => download(`${name}-${grid.size.name}${grids.length > 1 ? "-" + at : ""}.svg`, svg(grid, shades)));
      return button;
    });
    place.replaceChildren(one("summary", place), make("p", "Address"), make("pre", location.href), make("p", "A line to embed"), make("pre", line), ...buttons);
    all("pre", place).forEach((pre) => { pre.tabIndex = 0; });
  };
  tcprobe.svg = svg;
})(globalThis);
