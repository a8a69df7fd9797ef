// @ts-check
"use strict";
/** The page of an instruction: A left, B above, D lower right; what meets what, on each arch, for each N. */
globalThis.tcprobe.page = function instructionPage() {
  const { one, all, make, data, ARROWS, Grid, blocks, cellOf, onCells, focusable, archs, sized, rowsOf, select, go, carry, texts, onPaper } = tcprobe;
  const operands = data.operands, known = Object.fromEntries(Object.keys(operands).map((key) => [key, archs(operands[key].archs || {})]));
  const grown = Object.values(operands).find((operand) => operand.sizes), sizes = grown ? grown.sizes : [];
  const state = { arch: data.main, n: sizes[0], picks: {}, nibble: 0, warp: 0 };
  const span = (length, pair) => Array.from({ length }, (_, at) => pair(at));
  const choices = {};
  let sets = [];

  const explored = tcprobe.explore({ place: one("#choices"), reach, changed: () => address() });
  all(".strip a").forEach((chip) => { chip.dataset.arch = new URLSearchParams(chip.search).get("arch"); });

  /** Sizes and blocks of an operand; a factor in shared memory has pieces without holders. */
  function part(key) {
    const operand = operands[key];
    if (operand.place) {
      const cols = key === "b" && state.n ? state.n[0] : operand.cols;
      const row = span(Math.ceil(cols / operand.piece), (at) => ({ col: at * operand.piece, span: Math.min(operand.piece, cols - at * operand.piece), holders: [] }));
      return [{ ...operand, cols }, [{ title: "", holders: new Map(), slots: new Map(), flat: false, columns: cols, pieces: span(operand.rows, () => row) }]];
    }
    const at = known[key][state.arch];
    if (!at) return null;
    const n = operand.sizes && operand.sizes.find((size) => size[0] === state.n[0]);
    const size = n ? { ...operand, cols: n[1], elements: n[2] } : operand;
    return [size, blocks(sized(operand.layouts[at[0]], n), size)];
  }

  function draw() {
    sets = all(".composite").map((section, number) => {
      const grids = {};
      for (const key of data.drawn) {
        const place = one(".in-" + key, section), found = part(key);
        place.replaceChildren();
        if (!found) {
          place.append(make("p", operands[key].name + ": no table on " + state.arch, "soft"));
          continue;
        }
        const [size, list] = found, picks = operands[key].picks, chosen = picks ? state.picks[key] || 0 : number;
        const block = list[chosen] || list[0], table = make("table", "", "matrix");
        const rows = size.threads > 32 ? rowsOf(block, state.warp) : undefined;
        const grid = grids[key] = new Grid(table, block, size, rows);
        table.createCaption().textContent = size.name + " " + size.rows + " x " + size.cols + (size.place ? ", in " + size.place : "") + (picks && picks.length > 1 ? ": " + picks[chosen] : "");
        place.append(table);
        focusable(table, table.tBodies[0].rows[0].cells[1]);
        bind(grid, key, number);
      }
      align(grids, ["b", "d", "scale_b"]);
      align(grids, ["a", "e", "scale_a"]);
      return grids;
    });
    say();
    explored.drawn(sets.flatMap((grids) => Object.values(grids)));
    all("td.on").forEach((td) => td.classList.remove("on"));
    one("#meets").replaceChildren();
  }

  /** Columns of the same index under each other: as wide as the longest text in any of them needs. */
  function align(grids, keys) {
    const there = keys.map((key) => grids[key]).filter((grid) => grid && grid.block.columns === (grids[keys[0]] || grids.d || grid).block.columns);
    const em = Math.max(0, ...there.flatMap((grid) => grid.block.pieces.flatMap((row) => row.map((piece) => (texts(piece).length * 0.62 + 1.1) / piece.span))));
    for (const grid of there) {
      const group = make("colgroup"), head = make("col"), cols = make("col");
      head.style.width = "3em";
      cols.span = grid.block.columns;
      cols.style.width = em.toFixed(2) + "em";
      group.append(head, cols);
      grid.table.caption.after(group);
      grid.table.style.width = (3 + em * grid.block.columns).toFixed(1) + "em";
      grid.table.classList.add("fixed");
    }
  }

  /** All that depends on the arch. */
  function say() {
    for (const line of all("[data-operand]")) {
      const operand = operands[line.dataset.operand], at = known[line.dataset.operand][state.arch];
      one(".formula", line).textContent = at ? operand.formulas[at[0]] : "";
      one(".evidence", line).textContent = at ? operand.evidence[at[1]] : "no table on " + state.arch;
    }
    all("[data-arch]").forEach((chip) => chip.toggleAttribute("aria-current", chip.dataset.arch === state.arch));
    all("[data-of=arch]").forEach((name) => { name.textContent = state.arch; });
    all("[data-archs]").forEach((line) => line.classList.toggle("here", line.dataset.archs.split(" ").includes(state.arch)));
    all("[data-only]").forEach((section) => { section.hidden = section.dataset.only !== state.arch; });
    all("[data-without]").forEach((section) => { section.hidden = section.dataset.without.split(" ").includes(state.arch); });
    carry(state.arch === data.main ? "" : state.arch);
  }

  function bind(grid, key, number) {
    const { table } = grid;
    onCells(table, (td) => { focusable(table, td); pick(number, key, grid.element(td)); });
    table.addEventListener("keydown", (event) => {
      const [down, right] = ARROWS[event.key] || [0, 0], td = cellOf(event);
      const next = td && (table.tBodies[0].rows[td.parentNode.sectionRowIndex + down] || td.parentNode).cells[td.cellIndex + right];
      if (!next || next.tagName !== "TD" || !(down || right || event.key === "Enter")) return;
      event.preventDefault();
      focusable(table, next);
      next.focus();
      pick(number, key, grid.element(next));
    });
  }

  function pick(number, key, { row, col }) {
    state.chosen = { number, key, row, col };
    address();
    trace(state.chosen);
  }

  /** The column of A, a row of B, that a stored column is under the metadata that is chosen. */
  function k(stored) {
    const rule = data.sparsity;
    if (!rule) return stored;
    const nibble = rule.legal[state.nibble], half = Math.floor(stored / rule.span) % rule.fields;
    const index = rule.fields === 1 ? rule.legal.indexOf(nibble) : (nibble >> (2 * half)) & 3;
    return (Math.floor(stored / (rule.fields * rule.span)) * rule.positions + index) * rule.span + (stored % rule.span);
  }

  function trace({ number, key, row, col }) {
    const grids = sets[number], { a, b, d, e, scale_a: left, scale_b: above } = grids, paired = a && b && d;
    const stored = span(paired ? a.size.cols : 0, (at) => at), rule = data.sparsity;
    let steps = [];
    if (paired && key === "d") steps = stored.map((at) => [row, at, k(at), col]);
    else if (paired && key === "a") steps = span(d.size.cols, (at) => [row, col, k(col), at]);
    else if (paired && key === "b") steps = stored.filter((at) => k(at) === row).flatMap((at) => d.rows.map((line) => [line, at, row, col]));
    const each = (grid, cell) => [grid, steps.map(cell)];
    const field = (at) => rule ? at - (at % rule.span) : at;
    const scale = (grid, at) => Math.floor(at / Math.ceil((rule ? rule.k : b.size.rows) / at2(grid)));
    const at2 = (grid) => grid === left ? grid.size.cols : grid.size.rows;
    const marks = !paired ? [] : [each(a, ([m, at]) => [m, at]), each(b, ([, , kk, n]) => [kk, n]), each(d, ([m, , , n]) => [m, n]),
      ...(e ? [each(e, ([m, at]) => [m, field(at)])] : []),
      ...(left ? [each(left, ([m, , kk]) => [m, scale(left, kk)])] : []),
      ...(above ? [each(above, ([, , kk, n]) => [scale(above, kk), n])] : [])];
    Object.values(grids).forEach((grid) => grid.mark("on", []));
    marks.forEach(([grid, cells]) => grid.mark("on", cells));
    grids[key].mark("on", marks.length && ["a", "b", "d"].includes(key) ? (marks.find(([grid]) => grid === grids[key]) || [0, []])[1].concat([[row, col]]) : [[row, col]]);
    const picked = rule && paired ? ` (metadata 0x${rule.legal[state.nibble].toString(16)} in every four bits)` : "";
    const nothing = paired && key === "b" && !steps.length ? ": under this metadata nothing meets it" : "";
    one("#readout").textContent = grids[key].named(row, col) + ": " + grids[key].where(row, col) + nothing + picked;
    one("#meets").replaceChildren(...span(Math.min(steps.length, 256), (at) => make("li", marks.map(([grid, cells]) =>
      grid.named(...cells[at]) + " (" + grid.where(...cells[at]) + ")").join(" · "))));
  }

  function address(step = false) {
    const query = new URLSearchParams();
    if (state.arch !== data.main) query.set("arch", state.arch);
    if (state.n && state.n !== sizes[0]) query.set("n", state.n[0]);
    const at = state.chosen;
    const hash = (at ? `&${at.key}=${at.row},${at.col}` + (at.number ? "&block=" + at.number : "") : "") + explored.hash();
    go(query, hash && "#" + hash.slice(1), step);
  }

  /** A thread's warp comes into view. */
  function reach(/** @type {number} */ thread) {
    if (!choices.warp || thread >> 5 === state.warp) return;
    state.warp = thread >> 5;
    choices.warp.box.selectedIndex = state.warp;
    redraw();
  }

  function redraw() {
    draw();
    const at = state.chosen;
    if (at && sets[at.number] && sets[at.number][at.key] && sets[at.number][at.key].cell(at.row, at.col)) trace(at);
  }

  function listen() {
    const place = one("#choices"), add = (name, words, values, act) => {
      choices[name] = select(words, values, act);
      place.append(choices[name].label);
    };
    if (sizes.length) add("n", "N", sizes.map(([n]) => String(n)), (at) => { state.n = sizes[at]; address(); redraw(); });
    if (Object.values(operands).some((operand) => operand.threads > 32)) {
      add("warp", "Warp", span(4, (at) => `${at}: threads ${32 * at} to ${32 * at + 31}`), (at) => { state.warp = at; redraw(); });
    }
    if (data.sparsity) {
      add("nibble", "Metadata, every four bits", data.sparsity.legal.map((value) => "0x" + value.toString(16)), (at) => { state.nibble = at; redraw(); });
    }
    for (const key of data.drawn) {
      const picks = operands[key].picks;
      if (picks && picks.length > 1) add(key, operands[key].name, picks, (at) => { state.picks[key] = at; redraw(); });
    }
    all("[data-arch]").forEach((chip) => chip.addEventListener("click", (event) => {
      event.preventDefault();
      state.arch = chip.dataset.arch;
      one("#unknown").textContent = "";
      address(true);
      redraw();
    }));
    addEventListener("popstate", read);
  }

  function read() {
    const query = new URLSearchParams(location.search), hash = new URLSearchParams(location.hash.slice(1));
    const wanted = query.get("arch"), there = all("[data-arch]").map((chip) => chip.dataset.arch);
    state.arch = wanted !== null && there.includes(wanted) ? wanted : data.main;
    one("#unknown").textContent = wanted !== null && wanted !== state.arch ? wanted.slice(0, 20) + " has no table here: shown is " + state.arch + "." : "";
    if (sizes.length) {
      const at = Math.max(0, sizes.findIndex(([n]) => String(n) === query.get("n")));
      state.n = sizes[at];
      choices.n.box.selectedIndex = at;
    }
    const key = data.drawn.find((name) => hash.has(name)), [row, col] = key ? String(hash.get(key)).split(",").map(Number) : [];
    const number = Number(hash.get("block") || 0), operand = key && operands[key];
    state.chosen = key && number >= 0 && number < data.products && row >= 0 && row < operand.rows && col >= 0 && Number.isInteger(row) && Number.isInteger(col) ? { number, key, row, col } : null;
    const all_ = explored.read(hash, Math.max(...Object.values(operands).map((one_) => one_.threads)));
    state.warp = state.chosen && operand.threads > 32 ? Math.floor(row / (operand.rows / 4)) : choices.warp && all_ !== undefined ? all_ >> 5 : 0;
    if (choices.warp) choices.warp.box.selectedIndex = state.warp;
    redraw();
    const td = one("td.on");
    if (!td && location.hash.includes("=") && Array.from(hash.keys()).some((name) => !["colour", "all"].includes(name))) one("#readout").textContent = "The address names no element here. Choose one.";
    if (td && state.chosen) sets[state.chosen.number][key].cell(row, col)?.scrollIntoView({ block: "center", inline: "center" });
  }

  onPaper(".composite", redraw);
  listen();
  read();
};
