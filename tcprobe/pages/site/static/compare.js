// @ts-check
"use strict";
/**
 * The page that compares two fragments, two archs, or a fragment and a table that somebody pastes. Fragments come from
 * the table of words; what is pasted is read by diagnose.js, which is loaded then.
 * @param {CompareData} data
 */
tcprobe.pages.compare = function comparePage(data) {
  const { one, all, make, why, home, Grid, blocks, rowsOf, sizeOf, sized, formulas, load, words, go, onCells, onArrows, focusable, expand } = tcprobe;
  const MOST = 2500, MOST_BLOCKS = 64, MOST_ROWS = 64; // cells of a side; products or selectors; rows of a pasted table
  const form = one("form#sides"), paste = one("form#paste"), pastedText = one("textarea", paste), complete = one("input[name=complete]", paste);
  const readout = one("#readout"), said = one("#said"), wrong = one("#wrong"), agreed = one("#agreed"), command = one("#command"), which = one("select[name=block]", form);
  const sides = [["a", "on"], ["b", "with"]].map(([name, on], at) => ({ name, on, box: one(`input[name=${name}]`, form), arch: one(`select[name=${on}]`, form), section: all(".side")[at] }));
  const state = { grids: /** @type {Compared[]} */ ([]), chosen: /** @type {Place | null} */ (null), changed: false, block: 0 };
  let kinds = /** @type {Map<string, Kind>} */ (new Map());

  /** The table of words, and what is known of each fragment besides. */
  const begin = () => words().then((search) => {
    if (!kinds.size) {
      const ids = tcprobeWords.ids.flatMap(([prefix, lasts]) => lasts.split(" ").map((last) => prefix + "." + last));
      kinds = new Map(data.runs.flatMap(([kind, count]) => Array(count).fill(data.kinds[kind])).map((kind, at) => [ids[at], kind]));
    }
    return search;
  });
  /** @param {string} id @returns {Kind} */
  const kindOf = (id) => kinds.get(id) || data.kinds[0];
  const last = (/** @type {Layout} */ layout) => layout.in.slice(-2).map((axis) => axis[1]);

  /** The fragment that a text names, on an arch that has it; an Error in words where there is none. @param {Search} search @param {string} text @param {string} wanted @returns {Side} */
  function side(search, text, wanted) {
    const found = search.fragment(text);
    if (!found) throw new Error(search.unknown(text));
    const { known, query } = found, kind = kindOf(known.id), [, n = ""] = /m?64n(\d+)/i.exec(text) || [];
    const chosen = kind.sizes.find(([number]) => !n || String(number) === n);
    if (kind.sizes.length && !chosen) throw new Error(`${known.id} has no N of ${n.slice(0, 8)}.`);
    const arch = [wanted, query.get("arch") || "", known.main].find((name) => known.archs.includes(name)) || known.archs[0];
    if (wanted && arch !== wanted) throw new Error(`${known.id} has no table on ${wanted.slice(0, 20)}.`);
    const layout = chosen ? sized(tcprobeWords.layouts[known.layout], chosen[1]) : search.layoutOn(known, arch, null);
    const id = chosen ? known.id.replace("nNk", `n${chosen[0]}k`) : known.id;
    const size = sizeOf(id, layout, kind), every = blocks(layout, size), block = every[Math.min(state.block, every.length - 1)];
    const page = `f/${known.id.replaceAll("::", "--")}.html?arch=${arch}` + (chosen ? `&n=${chosen[0]}` : "");
    return { id, arch, page, layout, size, kind, block, archs: known.archs, titles: every.map(({ title }) => title), measured: !((kind.documented >> data.archs.indexOf(arch)) & 1) };
  }

  /** A pasted table as a side. @param {Stated} stated @param {Side} like @returns {Side} */
  function pasted({ threads, elements, outputs, cells }, like) {
    const layout = /** @type {Listed} */ ({ id: "", in: [["lane", threads], ["i", elements]], out: outputs, values: outputs.map((_, at) => cells.map((cell) => (cell ? cell[at] : null))) });
    const size = sizeOf(like.id, layout, like.kind);
    size.rows = Math.min(size.rows, Math.max(MOST_ROWS, like.size.rows));
    size.cols = Math.min(size.cols, Math.max(MOST_ROWS, like.size.cols));
    return { ...like, page: "", layout, size, block: blocks(layout, size)[0] };
  }

  /** What is measured of the block that is shown, by slot. @param {Side} of @returns {Stated} */
  function statedOf({ layout }) {
    const [threads, elements] = last(layout), per = threads * elements, first = layout.in.length > 2 ? state.block * per : 0;
    return { threads, elements, outputs: layout.out, cells: expand(layout).slice(first, first + per) };
  }

  /** The fragments, and on which archs, whose measured table it is: the asked one elsewhere first, else others. @param {Stated} stated @param {Side} asked */
  function whose(stated, asked) {
    const wanted = JSON.stringify(stated.cells), same = /** @type {Map<string, boolean>} */ (new Map());
    const is = (/** @type {Layout} */ layout, /** @type {number} */ elements) => {
      const [threads, most] = last(layout), key = layout.id + elements;
      if (layout.in.length !== 2 || threads !== stated.threads || elements !== stated.elements || most < elements || layout.out.join() !== stated.outputs.join()) return false;
      const known = same.get(key) ?? JSON.stringify(expand(sized(layout, elements))) === wanted;
      same.set(key, known);
      return known;
    };
    const every = tcprobeWords.ids.flatMap(([prefix, lasts, layouts, on]) => lasts.split(" ").map((part, at) => ({ id: prefix + "." + part, layout: layouts[at], on })));
    /** Each N of a fragment by itself. @param {typeof every[number]} one */
    const named = (one) => {
      const { sizes } = kindOf(one.id);
      return sizes.length ? sizes.map(([n, elements]) => ({ ...one, n, elements, name: one.id.replace("nNk", `n${n}k`) })) : [{ ...one, n: 0, elements: 0, name: one.id }];
    };
    /** On which archs fragments have the very table, measured. @param {ReturnType<typeof named>} list */
    const found = (list) => list.flatMap(({ id, layout, on, elements, name }) => data.archs.filter((arch, at) => {
      const other = tcprobeWords.layouts[tcprobeWords.others[id]?.[arch] ?? layout];
      return (on >> at) & 1 && !((kindOf(id).documented >> at) & 1) && is(other, elements || last(other)[1]);
    }).map((arch) => `${name} on ${arch}`));
    const alike = found(every.flatMap(named).filter(({ name }) => name === asked.id));
    if (alike.length) return alike;
    // of a form all operands of an N stand together
    const forms = /** @type {Map<string, typeof every>} */ (new Map());
    for (const one of every) {
      const form = one.id.slice(0, one.id.lastIndexOf("."));
      forms.set(form, [...(forms.get(form) || []), one]);
    }
    return found(Array.from(forms.values()).flatMap((members) => members.flatMap(named).sort((x, y) => x.n - y.n))).slice(0, 4);
  }

  /** Draw a side: its name, its formula, its matrix; of a warpgroup the band of one warp. @param {Side} of @param {number} number @param {string} title */
  function draw({ id, arch, page, layout, size, block }, number, title) {
    const { section } = sides[number], head = one("h2", section), link = make("a", id);
    link.href = home + page;
    head.replaceChildren(...(page ? [link, " on " + arch] : [title]));
    one(".formula", section).textContent = formulas(layout, "no formula is stated");
    const band = size.threads > 32 ? rowsOf(block, 0) : block.pieces.map((_, row) => row);
    const wide = Math.max(1, ...band.map((row) => block.pieces[row].length)), rows = band.slice(0, Math.max(1, Math.floor(MOST / wide)));
    return Object.assign(new Grid(one("table.matrix", section), block, size, rows), { hidden: block.pieces.length - rows.length });
  }

  /** Elements that others hold, on both sides; of shapes that differ those that both have. @param {Grid} x @param {Grid} y */
  function differing(x, y) {
    const at = (/** @type {string} */ key) => { const [row, col] = key.split(","); return /** @type {At} */ ([Number(row), Number(col)]); };
    const [mine, yours] = [x, y].map((grid) => grid.block.holders), both = Array.from(mine.keys()).filter((key) => yours.has(key));
    const only = [[mine, yours], [yours, mine]].map(([these, others]) => Array.from(these.keys()).filter((key) => !others.has(key)).map(at));
    return { found: both.filter((key) => String(mine.get(key)) !== String(yours.get(key))).map(at), total: both.length, only };
  }

  /** @param {Search} search */
  function show(search) {
    wrong.textContent = "";
    said.replaceChildren();
    let found;
    try {
      found = sides.map(({ box, arch }) => side(search, box.value.trim(), arch.value));
    } catch (error) {
      wrong.textContent = why(error);
      return;
    }
    const shown = found, [longest] = shown.map((of) => of.titles).sort((x, y) => y.length - x.length), text = pastedText.value;
    shown.forEach((of, at) => archsOf(sides[at].arch, of));
    which.replaceChildren(...longest.map((title) => make("option", title)));
    which.selectedIndex = Math.min(state.block, longest.length - 1);
    which.labels[0].hidden = longest.length < 2;
    if (text.trim()) load("diagnose.js").then(() => against(shown, text));
    else finish(shown, "");
  }

  /** The archs that a box offers are those that have a table. @param {HTMLSelectElement} box @param {Side} of */
  function archsOf(box, of) {
    box.replaceChildren(...of.archs.map((name) => make("option", name)));
    box.value = of.arch;
  }

  /** @param {Side[]} shown @param {string} title of a table that is pasted */
  function finish(shown, title) {
    state.grids = shown.map((of, at) => draw(of, at, title));
    const { found, total, only } = differing(state.grids[0], state.grids[1]), [x, y] = shown;
    state.grids.forEach((grid, at) => grid.mark("moved", [...found, ...only[at]].filter(([, col]) => col < grid.block.columns)));
    if (!title) {
      const lone = only.map((list, at) => list.length && `${list.length} are on ${at ? "the other side" : "one side"} only`).filter(Boolean);
      agreed.textContent = [`${found.length} of ${total} elements have different holders`, ...lone].join("; ") + "." + (state.grids.some((grid) => grid.hidden > 0) ? " Not all rows are drawn." : "");
      command.textContent = x.id === y.id ? `tcprobe diff ${x.arch} ${y.arch} ${x.id}` : shown.map((of) => `tcprobe show ${of.id} --arch ${of.arch}`).join("\n");
    }
    choose(state.chosen);
    if (state.changed) address(shown);
  }

  /** What is pasted, against one side. @param {Side[]} shown @param {string} text */
  function against(shown, text) {
    const [asked] = shown, { filled } = tcprobe, { words: say } = data.rules;
    try {
      if (!asked.measured) throw new Error(`Nobody measured ${asked.id} on ${asked.arch}; choose another arch.`);
      if (new Blob([text]).size > data.csv.most.bytes) throw new Error(`More than the ${data.csv.most.bytes} bytes that are read.`);
      const stated = tcprobe.readCsv(text, data.csv), answer = tcprobe.against(stated, asked.kind, statedOf(asked), data.rules, whose(stated, asked));
      const missing = answer.notStated ? filled(say["missing"], answer.notStated, answer.holes.slice(0, 4).join("; ")) : "";
      const good = !answer.first.length && !(complete.checked && answer.holes.length);
      agreed.textContent = filled(say["agree"], answer.agreed, answer.given) + missing + (good ? ". It is right." : ".");
      const lines = [...answer.first, ...answer.diagnosis.map((line) => filled(say["diagnosis"], line)), ...(answer.diagnosis.length ? [say["cured"]] : []),
        ...(answer.elsewhere.length ? [filled(say["elsewhere"], answer.elsewhere.join(", "))] : []), ...(answer.renumbered ? [say["renumbered"]] : [])];
      said.replaceChildren(...lines.map((line) => make("li", line)));
      command.textContent = `tcprobe compare FILE.csv ${asked.id} --arch ${asked.arch}` + (asked.layout.in.length > 2 ? ` --selector ${state.block}` : "") + (complete.checked ? " --complete" : "");
      finish([asked, pasted(stated, asked)], "Yours");
    } catch (error) {
      finish(shown, "");
      wrong.textContent = why(error).replace(/^line/, "Line");
      agreed.textContent = "No table was compared.";
    }
  }

  /** Show an element on both sides. @param {Place | null} at */
  function point(at) {
    state.grids.forEach((grid) => grid.mark("on", at && grid.has(at) ? [[at.row, at.col]] : []));
    const where = at && state.grids.map((grid) => (grid.has(at) ? grid.where(at.row, at.col) : "not there")).join("  |  ");
    readout.textContent = at ? `${state.grids[0].named(at.row, at.col)}: ${where}` : String(readout.dataset.hint);
  }

  /** @param {Place | null} at */
  function choose(at) {
    state.chosen = at;
    point(at);
  }

  /** @param {Side[]} shown */
  function address(shown) {
    const hash = new URLSearchParams();
    shown.forEach((of, at) => { hash.set(sides[at].name, of.id); hash.set(sides[at].on, of.arch); });
    if (state.block) hash.set("block", String(state.block));
    go(new URLSearchParams(location.search), "#" + hash);
  }

  /** The address says what is compared; one that names nothing known shows the default, and that is said. @param {Search} search */
  function read(search) {
    const hash = new URLSearchParams(location.hash.slice(1)), block = Number(hash.get("block") || 0);
    const given = (/** @type {string} */ name) => (hash.get(name) || "").slice(0, 100);
    state.block = Number.isInteger(block) && block >= 0 && block < MOST_BLOCKS ? block : 0;
    let lost = state.block !== block;
    const fill = (/** @type {number} */ number, /** @type {string} */ id, /** @type {string} */ on) => {
      const found = side(search, id, on), { box, arch } = sides[number];
      box.value = found.id;
      archsOf(arch, found);
    };
    sides.forEach(({ name, on }, number) => {
      try {
        if (given(name)) return fill(number, given(name), given(on));
      } catch { lost = true; }
      fill(number, ...data.first[number]);
    });
    show(search);
    if (lost) wrong.textContent = "The address names no fragment and arch with a table: the page shows the default.";
  }

  const changed = () => { state.changed = true; state.chosen = null; begin().then(show); };
  sides.forEach(({ section, box, arch }, number) => {
    const table = one("table.matrix", section), at = (/** @type {HTMLTableCellElement} */ td) => state.grids[number]?.element(td) ?? null;
    const pick = (/** @type {HTMLTableCellElement} */ td) => { focusable(table, td); choose(at(td)); };
    onCells(table, pick, (td) => point(at(td)), () => point(state.chosen));
    onArrows(table, pick);
    box.addEventListener("change", () => { arch.replaceChildren(); changed(); });
    arch.addEventListener("change", changed);
  });
  which.addEventListener("change", () => { state.block = which.selectedIndex; changed(); });
  for (const one_ of [form, paste]) one_.addEventListener("submit", (event) => { event.preventDefault(); changed(); });
  paste.addEventListener("reset", () => setTimeout(changed));
  addEventListener("hashchange", () => begin().then(read));
  begin().then(read);
};
