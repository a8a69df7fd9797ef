// @ts-check
"use strict";
/**
 * The page that compares two fragments, two archs, or a fragment and a table that somebody pastes. Fragments come from
 * the table of words; what is pasted is read by diagnose.js, which is loaded then.
 * @typedef {{bits: number, register: number, conventional: boolean, documented: number, sizes: [number, number][]}} Kind
 * @typedef {{id: string, arch: string, page: string, layout: any, size: any, kind: Kind, block: any,
 *   titles: string[], measured: boolean}} Side
 */
globalThis.tcprobe.page = function comparePage() {
  const { one, all, make, data, home, Grid, blocks, rowsOf, load, go, onCells, focusable, cellOf, ARROWS, expand, search } = tcprobe;
  const form = one("#sides"), paste = one("#paste"), sections = all(".side"), MOST = 2500, MOST_BLOCKS = 64, MOST_ROWS = 64; // cells of a side; products or selectors; rows of a pasted table
  const NAMES = { a: "on", b: "with" };
  /** @type {{grids: any[], chosen: {row: number, col: number} | null, changed: boolean, block: number}} */
  const state = { grids: [], chosen: null, changed: false, block: 0 };
  /** @type {any} */
  let words = null;
  /** @type {Map<string, Kind>} */
  let kinds = new Map();

  const begin = () => load("words.js").then(() => load("find.js")).then(() => {
    if (words) return;
    words = globalThis.tcprobeWords;
    const ids = words.ids.flatMap(([prefix, lasts]) => lasts.split(" ").map((last) => prefix + "." + last));
    kinds = new Map(data.runs.flatMap(([kind, count]) => Array(count).fill(data.kinds[kind])).map((kind, at) => [ids[at], kind]));
  });

  /** The fragment that a text names, on an arch that has it; an Error in words where there is none. @returns {Side} */
  function side(/** @type {string} */ text, /** @type {string} */ wanted) {
    const hit = search.find(text, words).find((found) => found.page.startsWith("f/") && found.whole !== false), known = hit && search.entry(hit.page, words);
    if (!known) throw new Error(`Nothing in registers is called ${text.slice(0, 60) || "nothing"}. Try: m16n8k16 bf16 d`);
    const kind = /** @type {Kind} */ (kinds.get(known.id)), [, n] = /m?64n(\d+)/i.exec(text) || [];
    const chosen = kind.sizes.find(([number]) => (n ? String(number) === n : true));
    if (kind.sizes.length && !chosen) throw new Error(`${known.id} has no N of ${n.slice(0, 8)}.`);
    const said = new URLSearchParams(hit.page.split("?")[1] || "").get("arch"), arch = [wanted, said, known.main].find((name) => known.archs.includes(name)) || known.archs[0];
    if (wanted && arch !== wanted) throw new Error(`${known.id} has no table on ${wanted.slice(0, 20)}.`);
    let layout = search.layoutOn(known, arch, null, words);
    if (chosen) layout = tcprobe.sized(words.layouts[known.layout], [0, 0, chosen[1]]);
    const id = chosen ? known.id.replace("nNk", `n${chosen[0]}k`) : known.id;
    const size = sizeOf(id, layout, kind), titled = blocks(layout, size), block = titled[Math.min(state.block, titled.length - 1)];
    const page = `f/${known.id.replaceAll("::", "--")}.html?arch=${arch}` + (chosen ? `&n=${chosen[0]}` : "");
    return { id, arch, page, layout, size, kind, block, titles: titled.map((one_) => one_.title), measured: !((kind.documented >> data.archs.indexOf(arch)) & 1) };
  }

  /** Sizes follow from the layout. */
  function sizeOf(/** @type {string} */ id, /** @type {any} */ layout, /** @type {any} */ kind) {
    const expanded = expand(layout), most = (out) => { const at = layout.out.indexOf(out); return at < 0 ? 1 : expanded.reduce((top, cell) => Math.max(top, cell ? cell[at] + 1 : 0), 1); };
    const [threads, elements] = layout.in.slice(-2).map((axis) => axis[1]), last = id.startsWith("wmma.") ? id.split(".")[2] : id.split(".").slice(-1)[0];
    return { name: last.length === 1 ? last.toUpperCase() : last, rows: most("row"), cols: most("col"), threads, elements, bits: kind.bits, register: kind.register };
  }

  /** A pasted table as a side. @returns {Side} */
  function pasted(/** @type {any} */ stated, /** @type {Side} */ like) {
    const { threads, elements, outputs, cells } = stated, nothing = outputs.map(() => null);
    const layout = /** @type {Layout} */ ({ id: "", in: [["lane", threads], ["i", elements]], out: outputs, values: outputs.map((_, at) => cells.map((cell) => (cell || nothing)[at])) });
    const size = sizeOf(like.id, layout, like.kind), room = (/** @type {number} */ own) => Math.max(MOST_ROWS, own);
    size.rows = Math.min(size.rows, room(like.size.rows));
    size.cols = Math.min(size.cols, room(like.size.cols));
    return { ...like, page: "", layout, size, block: blocks(layout, size)[0] };
  }

  /** Somebody's cells by slot, of a layout. */
  function statedOf(/** @type {Side} */ of) {
    const [threads, elements] = of.layout.in.slice(-2).map((axis) => axis[1]), per = threads * elements, first = of.layout.in.length > 2 ? state.block * per : 0;
    return { threads, elements, outputs: of.layout.out, cells: expand(of.layout).slice(first, first + per) };
  }

  /** The fragments, and on which archs, whose measured table it is: the asked one elsewhere first, else others. */
  function whose(/** @type {any} */ stated, /** @type {Side} */ asked) {
    const wanted = JSON.stringify(stated.cells), same = new Map();
    const is = (layout, elements) => {
      const [lane, i] = layout.in.slice(-2), key = layout.id + elements;
      if (layout.in.length !== 2 || lane[1] !== stated.threads || elements !== stated.elements || i[1] < elements || layout.out.join() !== stated.outputs.join()) return false;
      if (!same.has(key)) same.set(key, JSON.stringify(expand(tcprobe.sized(layout, [0, 0, elements]))) === wanted);
      return same.get(key);
    };
    /** On which archs a fragment has the very table, measured. */
    const archs = (/** @type {string} */ id, /** @type {number} */ layout, /** @type {number} */ on, /** @type {number | undefined} */ elements) => data.archs.filter((name, at) => {
      const kind = /** @type {Kind} */ (kinds.get(id)), other = (words.others[id] || {})[name], found = words.layouts[other === undefined ? layout : other];
      return (on >> at) & 1 && !((kind.documented >> at) & 1) && is(found, elements || found.in[found.in.length - 1][1]);
    });
    const every = words.ids.map(([prefix, lasts, layouts, on]) => lasts.split(" ").map((last, at) => ({ id: prefix + "." + last, layout: layouts[at], on }))).flat();
    const named = (one) => {
      const { sizes } = /** @type {Kind} */ (kinds.get(one.id));
      return sizes.length ? sizes.map(([n, elements]) => ({ ...one, n, elements, name: one.id.replace("nNk", `n${n}k`) })) : [{ ...one, n: 0, name: one.id }];
    };
    const asFound = (list) => list.flatMap((one) => archs(one.id, one.layout, one.on, one.elements).map((name) => `${one.name} on ${name}`));
    const alike = asFound(every.flatMap(named).filter((one) => one.name === asked.id));
    if (alike.length) return alike;
    // of a form all operands of an N stand together
    const forms = new Map();
    for (const one of every) {
      const form = one.id.slice(0, one.id.lastIndexOf("."));
      forms.set(form, [...(forms.get(form) || []), one]);
    }
    return asFound(Array.from(forms.values()).flatMap((members) => members.flatMap(named).sort((x, y) => x.n - y.n))).slice(0, 4);
  }

  /** Draw a side: its name, its formula, its matrix; of a warpgroup the band of one warp. */
  function draw(/** @type {Side} */ of, /** @type {number} */ number, /** @type {string} */ title) {
    const section = sections[number], head = one("h2", section), table = one(".matrix", section);
    head.replaceChildren();
    if (of.page) {
      const link = make("a", of.id);
      link.href = home + of.page;
      head.append(link, " on " + of.arch);
    } else head.append(title);
    one(".formula", section).textContent = Object.entries(of.layout.formula || {}).map(([out, formula]) => `${out} = ${formula || "no closed form"}`).join("\n") || "no formula is stated";
    const band = of.size.threads > 32 ? rowsOf(of.block, 0) : of.block.pieces.map((_, row) => row);
    const wide = Math.max(1, ...band.map((row) => of.block.pieces[row].length)), rows = band.slice(0, Math.max(1, Math.floor(MOST / wide)));
    const grid = new Grid(table, of.block, of.size, rows);
    grid.left = of.block.pieces.length - rows.length;
    focusable(table, table.tBodies[0].rows[0].cells[1]);
    return grid;
  }

  /** Elements that others hold, on both sides; of shapes that differ those that both have. */
  function differing(/** @type {any} */ x, /** @type {any} */ y) {
    const found = /** @type {[number, number][]} */ ([]);
    let total = 0;
    for (const [key, holders] of x.block.holders) {
      const others = y.block.holders.get(key);
      if (others) total++;
      if (others && String(others) !== String(holders)) found.push(key.split(",").map(Number));
    }
    return { found, total, only: [x, y].map((grid, at) => Array.from(grid.block.holders.keys()).filter((key) => !(at ? x : y).block.holders.has(key)).map((key) => key.split(",").map(Number))) };
  }

  function show() {
    const wrong = one("#wrong"), said = one("#said"), text = paste.elements.table.value;
    wrong.textContent = "";
    said.replaceChildren();
    let sides;
    try {
      sides = Object.entries(NAMES).map(([name, on]) => side(form.elements[name].value.trim(), form.elements[on].value));
    } catch (error) {
      wrong.textContent = error.message;
      return;
    }
    sides.forEach((of, at) => archsOf(form.elements[at ? "with" : "on"], of));
    const [longest] = sides.map((of) => of.titles).sort((x, y) => y.length - x.length), box = form.elements.block;
    box.replaceChildren(...longest.map((title) => make("option", title)));
    box.selectedIndex = Math.min(state.block, longest.length - 1);
    box.parentNode.hidden = longest.length < 2;
    if (!text.trim()) return void finish(sides, "");
    load("diagnose.js").then(() => against(sides, text));
  }

  /** The archs that a box offers are those that have a table. */
  function archsOf(/** @type {any} */ box, /** @type {Side} */ of) {
    const known = search.entry(of.page.split("?")[0], words);
    box.replaceChildren(...known.archs.map((name) => make("option", name)));
    box.value = of.arch;
  }

  function finish(/** @type {Side[]} */ sides, /** @type {string} */ title) {
    state.grids = sides.map((of, at) => draw(of, at, title));
    const { found, total, only } = differing(state.grids[0], state.grids[1]), hidden = state.grids.some((grid) => grid.left > 0);
    state.grids.forEach((grid, at) => grid.mark("moved", [...found, ...only[at]].filter(([, col]) => col < grid.block.columns)));
    const lone = only.map((list, at) => list.length && `${list.length} are on ${at ? "the other side" : "one side"} only`).filter(Boolean);
    if (!title) one("#agreed").textContent = `${found.length} of ${total} elements have different holders` + (lone.length ? "; " + lone.join(", ") : "") + "." + (hidden ? " Not all rows are drawn." : "");
    const [x, y] = sides;
    if (!title) one("#command").textContent = x.id === y.id ? `tcprobe diff ${x.arch} ${y.arch} ${x.id}` : sides.map((of) => `tcprobe show ${of.id} --arch ${of.arch}`).join("\n");
    choose(state.chosen);
    if (state.changed) address(sides);
  }

  /** What is pasted, against one side. */
  function against(/** @type {Side[]} */ sides, /** @type {string} */ text) {
    const [asked] = sides, complete = paste.elements.complete.checked, { against: compared, readCsv, filled } = tcprobe, { words: say } = data.rules;
    try {
      if (!asked.measured) throw new Error(`Nobody measured ${asked.id} on ${asked.arch}; choose another arch.`);
      if (new Blob([text]).size > data.csv.most.bytes) throw new Error(`More than the ${data.csv.most.bytes} bytes that are read.`);
      const stated = readCsv(text, data.csv), answer = compared(stated, { ...asked.kind }, statedOf(asked), data.rules, whose(stated, asked));
      const missing = answer.notStated ? filled(say["missing"], answer.notStated, answer.holes.slice(0, 4).join("; ")) : "";
      const good = !answer.first.length && !(complete && answer.holes.length);
      one("#agreed").textContent = filled(say["agree"], answer.agreed, answer.given) + missing + (good ? ". It is right." : ".");
      const lines = [...answer.first, ...answer.diagnosis.map((line) => filled(say["diagnosis"], line)), ...(answer.diagnosis.length ? [say["cured"]] : []),
        ...(answer.elsewhere.length ? [filled(say["elsewhere"], answer.elsewhere.join(", "))] : []), ...(answer.renumbered ? [say["renumbered"]] : [])];
      one("#said").replaceChildren(...lines.map((line) => make("li", line)));
      one("#command").textContent = `tcprobe compare FILE.csv ${asked.id} --arch ${asked.arch}` + (asked.layout.in.length > 2 ? ` --selector ${state.block}` : "") + (complete ? " --complete" : "");
      finish([asked, pasted(stated, asked)], "Yours");
    } catch (error) {
      finish(sides, "");
      one("#wrong").textContent = error.message.replace(/^line/, "Line");
      one("#agreed").textContent = "No table was compared.";
    }
  }

  function choose(/** @type {{row: number, col: number} | null} */ at) {
    state.chosen = at;
    state.grids.forEach((grid) => grid.mark("on", at && at.row < grid.block.pieces.length && at.col < grid.block.columns ? [[at.row, at.col]] : []));
    const readout = one("#readout");
    if (!at) return void (readout.textContent = readout.dataset.hint);
    const inside = state.grids.map((grid) => (at.row < grid.block.pieces.length && at.col < grid.block.columns ? grid.where(at.row, at.col) : "not there"));
    readout.textContent = `${state.grids[0].named(at.row, at.col)}: ${inside.join("  |  ")}`;
  }

  function address(/** @type {Side[]} */ sides) {
    const hash = new URLSearchParams();
    sides.forEach((of, at) => { hash.set(at ? "b" : "a", of.id); hash.set(at ? "with" : "on", of.arch); });
    if (state.block) hash.set("block", String(state.block));
    go(new URLSearchParams(location.search), "#" + hash);
  }

  /** The address says what is compared; one that names nothing known shows the default, and that is said. */
  function read() {
    const hash = new URLSearchParams(location.hash.slice(1)), block = Number(hash.get("block") || 0);
    const at = (/** @type {string} */ name) => (hash.get(name) || "").slice(0, 100);
    state.block = Number.isInteger(block) && block >= 0 && block < MOST_BLOCKS ? block : 0;
    let lost = state.block !== block;
    Object.entries(NAMES).forEach(([name, on], number) => {
      const given = at(name) ? [at(name), at(on)] : data.first[number];
      try {
        const found = side(given[0], given[1]);
        form.elements[name].value = found.id;
        archsOf(form.elements[on], found);
      } catch (error) {
        lost = true;
        form.elements[name].value = data.first[number][0];
        archsOf(form.elements[on], side(data.first[number][0], data.first[number][1]));
      }
    });
    show();
    if (lost) one("#wrong").textContent = "The address names no fragment and arch with a table: the page shows the default.";
  }

  sections.forEach((section, number) => {
    const table = one(".matrix", section), at = (td) => state.grids[number] && state.grids[number].element(td);
    onCells(table, (td) => { focusable(table, td); choose(at(td)); }, (td) => { const kept = state.chosen; choose(at(td)); state.chosen = kept; }, () => choose(state.chosen));
    table.addEventListener("keydown", (event) => {
      const [down, right] = ARROWS[event.key] || [0, 0], td = cellOf(event), line = td && table.tBodies[0].rows[td.parentNode.sectionRowIndex + down], next = line && line.cells[td.cellIndex + right];
      if (!next || next.tagName !== "TD" || !(down || right || event.key === "Enter")) return;
      event.preventDefault();
      focusable(table, next);
      next.focus();
      choose(at(next));
    });
  });
  const changed = () => { state.changed = true; state.chosen = null; begin().then(show); };
  for (const [name, on] of Object.entries(NAMES)) {
    form.elements[name].addEventListener("change", () => { form.elements[on].replaceChildren(); changed(); });
    form.elements[on].addEventListener("change", changed);
  }
  form.elements.block.addEventListener("change", () => { state.block = form.elements.block.selectedIndex; changed(); });
  form.addEventListener("submit", (event) => { event.preventDefault(); changed(); });
  paste.addEventListener("submit", (event) => { event.preventDefault(); changed(); });
  paste.addEventListener("reset", () => setTimeout(changed));
  addEventListener("hashchange", () => begin().then(read));
  begin().then(read);
};
