// @ts-check
"use strict";
/** The page that compares two archs. @param {DiffData} data */
tcprobe.pages.diff = function diffPage({ archs, groups, formulas }) {
  const { one, all, make, home, offers } = tcprobe;
  const query = new URLSearchParams(location.search), boxes = all("#diff select");
  const ids = (globalThis.tcprobeNames || []).flatMap(([prefix, lasts]) => lasts.split(" ").map((last) => prefix + "." + last));

  /** @param {string[]} members */
  function list(members) {
    const found = make("ul");
    for (const id of members) {
      const item = make("li"), link = make("a", id);
      link.href = home + "f/" + id.replaceAll("::", "--") + ".html";
      item.append(link);
      found.append(item);
    }
    return found;
  }

  function show() {
    const [a, b] = boxes.map((box) => box.value), at = [a, b].map((name) => archs.indexOf(name)), parts = [];
    const folded = { both: /** @type {string[]} */ ([]), a: /** @type {string[]} */ ([]), b: /** @type {string[]} */ ([]) };
    for (const [runs, layouts] of groups) {
      const members = runs.flatMap(([first, count]) => ids.slice(first, first + count)), [x, y] = at.map((n) => layouts[n]);
      if (x < 0 || y < 0) {
        if (x !== y) folded[y < 0 ? "a" : "b"].push(...members);
      } else if (x === y) folded.both.push(...members);
      else {
        parts.push(make("h2", members.length + (members.length > 1 ? " fragments have" : " fragment has") + " another table"),
          make("pre", a + "  " + formulas[x] + "\n" + b + "  " + formulas[y]), list(members));
      }
    }
    if (!parts.length) parts.push(make("p", "No table differs."));
    const kinds = /** @type {[string[], string][]} */ ([[folded.both, "the same table on both"], [folded.a, `a table on ${a} only`], [folded.b, `a table on ${b} only`]]);
    for (const [members, said] of kinds.filter(([members]) => members.length)) {
      const details = make("details");
      details.append(make("summary", `${members.length} have ${said}`), list(members));
      parts.push(details);
    }
    one("#found").replaceChildren(...parts);
  }

  for (const box of boxes) {
    const wanted = query.get(box.name);
    if (wanted !== null && offers(box, wanted)) box.value = wanted;
    box.addEventListener("change", show);
  }
  show();
};
