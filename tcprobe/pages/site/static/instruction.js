// @ts-check
"use strict";
/**
 * The page of an instruction: A left, B above, D lower right; what meets what, on each arch, for each N.
 * @param {InstructionData} data
 */
tcprobe.pages.instruction = function instructionPage(data) {
  const { one, all, make, explore, Grid, blocks, onCells, onArrows, focusable, archs, sized, rowsOf, select, go, carry, texts, onPaper } = tcprobe;
  const { operands, sparsity: rule } = data, held = Object.entries(operands).flatMap(([key, operand]) => ("piece" in operand ? [] : [{ key, operand, known: archs(operand.archs) }]));
  const sizes = held.find(({ operand }) => operand.sizes)?.operand.sizes || [], chips = all(".strip a"), place = one("#choices"), readout = one("#readout"), meets = one("#meets");
  const state = { arch: data.main, n: sizes[0], picks: /** @type {Record<string, number>} */ ({}), nibble: 0, warp: 0, chosen: /** @type {Picked | null} */ (null) };
  /** @template T @param {number} length @param {(at: number) => T} of */
  const span = (length, of) => Array.from({ length }, (_, at) => of(at));
  const explored = explore({ place, reach, changed: () => address() });
  const choices = { n: /** @type {Choice | null} */ (null), warp: /** @type {Choice | null} */ (null) };
  let sets = /** @type {Record<string, Grid>[]} */ ([]);

  /** What is known of an operand in registers. @param {string | undefined} key */
  const inRegisters = (key) => held.find((one_) => one_.key === key);

  /** Size and blocks of an operand; a factor in shared memory has pieces without holders. @param {string} key @returns {{size: Size, list: Block[], picks: string[]} | null} */
  function part(key) {
    const operand = operands[key];
    if ("piece" in operand) {
      const cols = key === "b" && state.n ? state.n[0] : operand.cols;
      const row = span(Math.ceil(cols / operand.piece), (at) => ({ col: at * operand.piece, span: Math.min(operand.piece, cols - at * operand.piece), holders: [] }));
      const block = { title: "", holders: new Map(), slots: new Map(), flat: false, columns: cols, pieces: span(operand.rows, () => row), lanes: [] };
      return { size: { ...operand, cols }, list: [block], picks: [] };
    }
    const [layout] = inRegisters(key)?.known[state.arch] || [];
    if (layout === undefined) return null;
    const [, cols, elements] = operand.sizes?.find(([n]) => n === state.n[0]) || [0, operand.cols, operand.elements];
    const size = { ...operand, cols, elements };
    return { size, list: blocks(sized(operand.layouts[layout], operand.sizes && elements), size), picks: operand.picks || [] };
  }

  function draw() {
    sets = all(".composite").map((section, number) => {
      const grids = /** @type {Record<string, Grid>} */ ({});
      for (const key of data.drawn) {
        const cell = one(".in-" + key, section), found = part(key);
        if (!found) {
          cell.replaceChildren(make("p", operands[key].name + ": no table on " + state.arch, "soft"));
          continue;
        }
        const { size, list, picks } = found, chosen = picks.length ? state.picks[key] || 0 : number, table = make("table", "", "matrix");
        const block = list[chosen] || list[0], grid = grids[key] = new Grid(table, block, size, size.threads > 32 ? rowsOf(block, state.warp) : undefined);
        table.createCaption().textContent = size.name + " " + size.rows + " x " + size.cols + (size.place ? ", in " + size.place : "") + (picks.length > 1 ? ": " + picks[chosen] : block.title && ", " + block.title);
        cell.replaceChildren(table);
        const choose = (/** @type {HTMLTableCellElement} */ td) => { focusable(table, td); pick({ number, key, ...grid.element(td) }); };
        onCells(table, choose);
        onArrows(table, choose);
      }
      align([grids.b, grids.d, grids.scale_b], grids.d);
      align([grids.a, grids.e, grids.scale_a], grids.d);
      return grids;
    });
    say();
    explored.drawn(sets.flatMap((grids) => Object.values(grids)));
    meets.replaceChildren();
  }

  /** Columns of the same index under each other: as wide as the longest text in any of them needs. @param {Grid[]} grids @param {Grid} [d] */
  function align(grids, d) {
    const columns = (grids[0] || d)?.block.columns, there = grids.filter((grid) => grid && (columns === undefined || grid.block.columns === columns));
    const em = Math.max(0, ...there.flatMap((grid) => grid.block.pieces.flatMap((row) => row.map((piece) => (texts(piece).length * 0.62 + 1.1) / piece.span))));
    for (const { table, block } of there) {
      const group = make("colgroup"), head = make("col"), cols = make("col");
      head.style.width = "3em";
      cols.span = block.columns;
      cols.style.width = em.toFixed(2) + "em";
      group.append(head, cols);
      table.caption?.after(group);
      table.style.width = (3 + em * block.columns).toFixed(1) + "em";
      table.classList.add("fixed");
    }
  }

  /** All that depends on the arch. */
  function say() {
    for (const line of all("[data-operand]")) {
      const of = inRegisters(line.dataset.operand), [layout, rests] = of?.known[state.arch] || [];
      one(".formula", line).textContent = of && layout !== undefined ? of.operand.formulas[layout] : "";
      one(".evidence", line).textContent = of && rests !== undefined ? of.operand.evidence[rests] : "no table on " + state.arch;
    }
    const lists = (/** @type {string | undefined} */ names) => String(names).split(" ").includes(state.arch);
    all("[data-arch]").forEach((chip) => chip.toggleAttribute("aria-current", chip.dataset.arch === state.arch));
    all("[data-of=arch]").forEach((name) => { name.textContent = state.arch; });
    all("[data-archs]").forEach((line) => line.classList.toggle("here", lists(line.dataset.archs)));
    all("[data-only]").forEach((section) => { section.hidden = section.dataset.only !== state.arch; });
    all("[data-without]").forEach((section) => { section.hidden = lists(section.dataset.without); });
    carry(state.arch === data.main ? "" : state.arch);
  }

  /** @param {Picked} chosen */
  function pick(chosen) {
    state.chosen = chosen;
    address();
    trace(chosen);
  }

  /** The column of A, a row of B, that a stored column is under the metadata that is chosen. @param {number} stored */
  function k(stored) {
    if (!rule) return stored;
    const nibble = rule.legal[state.nibble], half = Math.floor(stored / rule.span) % rule.fields;
    const index = rule.fields === 1 ? rule.legal.indexOf(nibble) : (nibble >> (2 * half)) & 3;
    return (Math.floor(stored / (rule.fields * rule.span)) * rule.positions + index) * rule.span + (stored % rule.span);
  }

  /** Mark what an element meets, and say it; of a move the element alone. @param {Picked} chosen */
  function trace({ number, key, row, col }) {
    const grids = sets[number], { a, b, d, e, scale_a: left, scale_b: above } = grids, own = grids[key], at = /** @type {At} */ ([row, col]);
    const paired = Boolean(a && b && d), steps = paired ? stepsOf(key, at, a, d) : [];
    const field = (/** @type {number} */ stored) => (rule ? stored - (stored % rule.span) : stored);
    const scale = (/** @type {number} */ kk, /** @type {number} */ count) => Math.floor(kk / Math.ceil((rule ? rule.k : b.size.rows) / count));
    const each = (/** @type {Grid} */ grid, /** @type {(step: Step) => At} */ cell) => ({ grid, cells: steps.map(cell) });
    const marks = !paired ? [] : [each(a, ([m, stored]) => [m, stored]), each(b, ([, , kk, n]) => [kk, n]), each(d, ([m, , , n]) => [m, n]),
      ...(e ? [each(e, ([m, stored]) => [m, field(stored)])] : []),
      ...(left ? [each(left, ([m, , kk]) => [m, scale(kk, left.size.cols)])] : []),
      ...(above ? [each(above, ([, , kk, n]) => [scale(kk, above.size.rows), n])] : [])];
    Object.values(grids).forEach((grid) => grid.mark("on", []));
    marks.forEach(({ grid, cells }) => grid.mark("on", cells));
    own.cell(row, col)?.classList.add("on");
    const picked = rule && paired ? ` (metadata 0x${rule.legal[state.nibble].toString(16)} in every four bits)` : "";
    const nothing = paired && key === "b" && !steps.length ? ": under this metadata nothing meets it" : "";
    readout.textContent = own.named(row, col) + ": " + own.where(row, col) + nothing + picked;
    meets.replaceChildren(...span(Math.min(steps.length, 256), (step) => make("li", marks.map(({ grid, cells }) =>
      grid.named(...cells[step]) + " (" + grid.where(...cells[step]) + ")").join(" · "))));
  }

  /** The multiplications that an element of A, B or D takes part in. @param {string} key @param {At} at @param {Grid} a @param {Grid} d @returns {Step[]} */
  function stepsOf(key, [row, col], a, d) {
    if (key === "a") return span(d.size.cols, (at) => [row, col, k(col), at]);
    const stored = span(a.size.cols, (at) => at);
    if (key === "d") return stored.map((at) => [row, at, k(at), col]);
    return key === "b" ? stored.filter((at) => k(at) === row).flatMap((at) => d.rows.map((line) => /** @type {Step} */ ([line, at, row, col]))) : [];
  }

  function address(step = false) {
    const query = new URLSearchParams(), at = state.chosen;
    if (state.arch !== data.main) query.set("arch", state.arch);
    if (state.n && state.n !== sizes[0]) query.set("n", String(state.n[0]));
    const hash = (at ? `&${at.key}=${at.row},${at.col}` + (at.number ? "&block=" + at.number : "") : "") + explored.hash();
    go(query, hash && "#" + hash.slice(1), step);
  }

  /** A thread's warp comes into view. @param {number} thread */
  function reach(thread) {
    if (!choices.warp || thread >> 5 === state.warp) return;
    state.warp = thread >> 5;
    choices.warp.box.selectedIndex = state.warp;
    redraw();
  }

  function redraw() {
    draw();
    const at = state.chosen;
    if (at && sets[at.number]?.[at.key]?.cell(at.row, at.col)) trace(at);
  }

  function listen() {
    const add = (/** @type {string} */ words, /** @type {string[]} */ values, /** @type {(at: number) => void} */ act) => {
      const made = select(words, values, (at) => { act(at); redraw(); });
      place.append(made.label);
      return made;
    };
    if (sizes.length) choices.n = add("N", sizes.map(([n]) => String(n)), (at) => { state.n = sizes[at]; address(); });
    if (held.some(({ operand }) => operand.threads > 32)) choices.warp = add("Warp", span(4, (at) => `${at}: threads ${32 * at} to ${32 * at + 31}`), (at) => { state.warp = at; });
    if (rule) add("Metadata, every four bits", rule.legal.map((value) => "0x" + value.toString(16)), (at) => { state.nibble = at; });
    for (const key of data.drawn) {
      const picks = inRegisters(key)?.operand.picks || [];
      if (picks.length > 1) add(operands[key].name, picks, (at) => { state.picks[key] = at; });
    }
    chips.forEach((chip) => {
      const arch = chip.dataset.arch = String(new URLSearchParams(chip.search).get("arch"));
      chip.addEventListener("click", (event) => {
        event.preventDefault();
        state.arch = arch;
        one("#unknown").textContent = "";
        address(true);
        redraw();
      });
    });
    addEventListener("popstate", read);
  }

  /** The element that an address names, or null. @param {URLSearchParams} hash @returns {Picked | null} */
  function named(hash) {
    const key = data.drawn.find((name) => hash.has(name)), number = Number(hash.get("block") || 0);
    if (!key || !(number >= 0 && number < data.products)) return null;
    const [row, col] = String(hash.get(key)).split(",").map(Number);
    return Number.isInteger(row) && Number.isInteger(col) && row >= 0 && row < operands[key].rows && col >= 0 ? { number, key, row, col } : null;
  }

  function read() {
    const query = new URLSearchParams(location.search), hash = new URLSearchParams(location.hash.slice(1)), wanted = query.get("arch");
    state.arch = chips.some((chip) => chip.dataset.arch === wanted) ? String(wanted) : data.main;
    one("#unknown").textContent = wanted !== null && wanted !== state.arch ? wanted.slice(0, 20) + " has no table here: shown is " + state.arch + "." : "";
    if (choices.n) {
      const at = Math.max(0, sizes.findIndex(([n]) => String(n) === query.get("n")));
      state.n = sizes[at];
      choices.n.box.selectedIndex = at;
    }
    const chosen = state.chosen = named(hash), thread = explored.read(hash, Math.max(...Object.values(operands).map(({ threads }) => threads)));
    const operand = chosen && operands[chosen.key];
    state.warp = operand && operand.threads > 32 ? Math.floor(chosen.row / (operand.rows / 4)) : choices.warp && thread !== undefined ? thread >> 5 : 0;
    if (choices.warp) choices.warp.box.selectedIndex = state.warp;
    redraw();
    const td = chosen && sets[chosen.number]?.[chosen.key]?.cell(chosen.row, chosen.col);
    if (td) td.scrollIntoView({ block: "center", inline: "center" });
    else if (location.hash.includes("=") && Array.from(hash.keys()).some((name) => !["colour", "all"].includes(name))) readout.textContent = "The address names no element here. Choose one.";
  }

  onPaper(".composite", redraw);
  listen();
  read();
};
