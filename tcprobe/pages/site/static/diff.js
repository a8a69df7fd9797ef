// @ts-check
"use strict";
/** The page that compares two archs. */
globalThis.tcprobe.page = function diffPage() {
  const { one, all, make, data, home } = tcprobe;
  const fragments = () => (globalThis.tcprobeNames || []).flatMap(([prefix, lasts]) => lasts.split(" ").map((last) => prefix + "." + last));
  function link(id) {
    const found = make("a", id);
    found.href = home + "f/" + id.replaceAll("::", "--") + ".html";
    return found;
  }
  const query = new URLSearchParams(location.search), ids = fragments(), boxes = all("#diff select");
  const list = (members) => {
    const found = make("ul");
    for (const id of members) found.append(make("li")), found.lastChild.append(link(id));
    return found;
  };
  function show() {
    const names = boxes.map((box) => box.value), at = names.map((name) => data.archs.indexOf(name)), parts = [];
    const folded = /** @type {Record<string, string[]>} */ ({ "have the same table on both": [], ["have a table on " + names[0] + " only"]: [], ["have a table on " + names[1] + " only"]: [] });
    const kinds = Object.keys(folded);
    for (const [runs, cells] of data.groups) {
      const members = runs.flatMap(([first, count]) => ids.slice(first, first + count)), [x, y] = at.map((n) => cells[n]);
      if (x === y || x < 0 || y < 0) {
        if (x >= 0 || y >= 0) folded[kinds[x === y ? 0 : y < 0 ? 1 : 2]].push(...members);
        continue;
      }
      parts.push(make("h2", members.length + (members.length > 1 ? " fragments have" : " fragment has") + " another table"),
        make("pre", names[0] + "  " + data.formulas[x] + "\n" + names[1] + "  " + data.formulas[y]), list(members));
    }
    if (!parts.length) parts.push(make("p", "No table differs."));
    for (const kind of kinds.filter((kind) => folded[kind].length)) {
      const details = make("details");
      details.append(make("summary", folded[kind].length + " " + kind), list(folded[kind]));
      parts.push(details);
    }
    one("#found").replaceChildren(...parts);
  }
  for (const box of boxes) {
    if (data.archs.includes(query.get(box.name))) box.value = query.get(box.name);
    box.addEventListener("change", show);
  }
  show();
};
