// @ts-check
"use strict";
/**
 * The page of a fragment: another arch, another N, another warp; what is chosen in the matrix and in the registers.
 * @typedef {{block: number, row?: any, col?: any, lane?: any, i?: any}} Chosen an element, or a slot
 */
globalThis.tcprobe.page = function factPage() {
  const { one, all, make, data, home, ARROWS, Grid, blocks, laneRows, holding, rowsOf, fill, clear, select, go, carry } = tcprobe;
  const { cellOf, onCells, focusable, expand, archs, sized, onPaper } = tcprobe;
  const MOST = 5000; // cells of matrix and registers together
  const readout = one("#readout"), sizes = data.sizes || [], known = archs(data.archs), wide = data.threads > 32;
  const state = { arch: data.main, chosen: /** @type {Chosen | null} */ (null), size: sizes[0], warp: 0, first: 0 };
  const choices = {};
  let grids = [];

  // the page says its formula once, and has no element around a head and its code
  one(".tabs").prepend(make("h3", "Formula"), make("pre", one("#formula").textContent));
  all(".tabs > pre").forEach((pre) => {
    const part = make("div", "", "copy");
    part.append(pre.previousElementSibling, pre.cloneNode(true));
    pre.replaceWith(part);
  });
  all(".tabs pre").forEach((pre) => { pre.dataset.written = pre.textContent; });
  const explored = tcprobe.explore({ place: one(".block"), reach: (thread) => view(grids[0], thread), changed: () => address() });
  all(".strip a").forEach((chip) => { chip.dataset.arch = new URLSearchParams(chip.search).get("arch"); });

  const size = () => ({ ...data, ...(state.size && { cols: state.size[1], elements: state.size[2] }) });
  const layoutOf = (arch) => sized(data.layouts[known[arch][0]], state.size);

  function draw() {
    const of = size(), found = blocks(layoutOf(state.arch), of);
    const before = state.arch === data.main ? null : blocks(layoutOf(data.main), of);
    grids = found.map((block, number) => {
      const section = all(".block")[number], rows = wide ? rowsOf(block, state.warp) : undefined;
      const grid = new Grid(one(".matrix", section), block, of, rows);
      grid.lanes = one(".lanes", section);
      lanes(grid);
      focusable(grid.table, grid.table.tBodies[0].rows[0].cells[1]);
      return grid;
    });
    compare(before);
    csv(layoutOf(state.arch));
    if (state.size) one("#n a").textContent = state.size[3], one("#n a").href = home + "l/" + state.size[3] + ".html";
    provenance();
    explored.drawn(grids);
    choose(state.chosen);
  }

  /** The registers of the lanes of a warp; of a large fragment of as many lanes as there is room for. */
  function lanes(grid) {
    const every = holding(grid.block).filter((thread) => !wide || thread >> 5 === state.warp);
    const registers = grid.size.elements * grid.size.bits / grid.size.register;
    const room = MOST - grid.table.tBodies[0].rows.length * grid.block.pieces[grid.rows[0]].length;
    grid.shown = every.length;
    while (grid.shown > 4 && grid.shown * registers > room) grid.shown >>= 1;
    grid.every = every;
    fill(grid.lanes, laneRows(grid.block, grid.size, page(grid)));
    if (choices.lanes) choices.lanes.label.remove();
    delete choices.lanes;
    if (grid.shown === every.length) return;
    const starts = every.filter((_, number) => number % grid.shown === 0);
    choices.lanes = select("Registers of threads", starts.map((thread) => thread + " to " + (thread + grid.shown - 1)), (at) => turn(grid, at * grid.shown));
    choices.lanes.box.selectedIndex = state.first / grid.shown;
    grid.lanes.closest(".scroll").before(choices.lanes.label);
  }

  const page = (grid) => {
    if (state.first >= grid.every.length) state.first = 0;
    state.first -= state.first % grid.shown;
    return grid.every.slice(state.first, state.first + grid.shown);
  };

  function turn(grid, first) {
    state.first = first;
    fill(grid.lanes, laneRows(grid.block, grid.size, page(grid)));
    if (choices.lanes) choices.lanes.box.selectedIndex = state.first / grid.shown;
    explored.drawn(grids);
    show(state.chosen);
  }

  /** All that depends on the arch. */
  function provenance() {
    const { arch } = state, at = data.known[known[arch][1]], verdicts = data.verdicts[at.verdicts], layout = layoutOf(arch);
    all("[data-layout]").forEach((part) => {
      part.hidden = part.dataset.layout !== layout.id;
      if (part.dataset.as) all("pre", part).forEach((pre) => {
        if (!pre.classList.contains("csv")) pre.textContent = pre.dataset.written.replaceAll(`on ${part.dataset.as}, layout`, `on ${arch}, layout`);
      });
    });
    one("#formula").textContent = one(".tabs:not([hidden]) pre").textContent;
    all("[data-arch]").forEach((chip) => chip.toggleAttribute("aria-current", chip.dataset.arch === arch));
    all("[data-of=arch]").forEach((name) => { name.textContent = arch; });
    one("#evidence").textContent = arch + ": " + at.evidence + ".";
    one("#numbering").textContent = at.numbering;
    one("#emulated").textContent = data.emulated[arch] || "";
    one("#verdicts").hidden = !verdicts.length;
    one("#stated").hidden = Boolean(verdicts.length);
    one("#stated").textContent = at.measured ? "No source that tcprobe knows covers it." : "The table is a reference's own statement; nobody measured it there: " + at.evidence + ".";
    one("#verdicts tbody").replaceChildren(...verdicts.map(verdict));
    one("#made").replaceChildren(...at.made.map(([key, value]) => row(make("th", key), make("td", value))));
    one("#again").textContent = at.command.replaceAll("{arch}", arch);
    one("#of-arch").href = home + "a/" + arch + ".html";
    one("#of-arch").textContent = "All of " + arch;
    one("#of-data").href = home + (arch === data.main ? data.page : "json/all.json");
    one("#of-data").textContent = arch === data.main ? "Data on " + arch : "Data of all archs";
    carry(arch === data.main ? "" : arch);
  }

  const row = (...cells) => { const line = make("tr"); line.append(...cells); return line; };

  function verdict([source, said, detail, erratum]) {
    const words = make("td", detail);
    if (erratum) words.append(make("br"), "Erratum: " + erratum);
    return row(make("td", source), make("td", said, said === "not covered" ? "" : said), words);
  }

  function compare(before) {
    let total = 0, count = 0;
    const moved = grids.map((grid, number) => {
      const found = [];
      grid.block.pieces.forEach((_, line) => {
        for (let col = 0; col < grid.block.columns; col++) {
          total++;
          const key = line + "," + col;
          if (before && String(before[number].holders.get(key)) !== String(grid.block.holders.get(key))) found.push([line, col]);
        }
      });
      count += found.length;
      return found;
    });
    grids.forEach((grid, number) => grid.mark("moved", 2 * count < total ? moved[number] : []));
    one("#differs").textContent = state.unknown ? `${state.unknown} has no table here: shown is ${data.main}.` : !before ? "" : count ? count + " of " + total + " elements are held elsewhere than on " + data.main + "." : "The same table as on " + data.main + ".";
  }

  // What is chosen: {block, row, col} an element, or {block, lane, i} a slot.
  function show(chosen) {
    grids.forEach((grid) => {
      grid.mark("on", []);
      clear(grid.lanes, "on");
    });
    if (!chosen) return void (readout.textContent = state.lost ? "The address names no element of this matrix. " + readout.dataset.hint : readout.dataset.hint);
    const grid = grids[chosen.block], element = chosen.lane === undefined ? [chosen.row, chosen.col] : grid.block.slots.get(chosen.lane + "," + chosen.i);
    if (!element) return void (readout.textContent = grid.axis + chosen.lane + ", i " + chosen.i + " holds nothing");
    grid.mark("on", [element]);
    const slots = chosen.lane === undefined ? grid.holders(...element) : [[chosen.lane, chosen.i]];
    slots.forEach(([thread, i]) => { const td = laneCell(grid, thread, i); if (td) td.classList.add("on"); });
    const axis = grid.axis;
    readout.textContent = grid.named(...element) + ": " + (slots.map(([thread, i]) => axis + thread + ", i " + i + grid.place(i)).join("; ") || "nowhere") + (grid.block.title && " (" + grid.block.title + ")");
  }

  function laneCell(grid, thread, i) {
    const line = grid.lanes.tBodies[0].rows[grid.block.lanes.indexOf(thread)];
    return line && line.cells[1 + Math.floor((i * data.bits) / data.register)];
  }

  /** The warp and the lanes that have what is chosen come into view. */
  function reach(grid, chosen) {
    const [[thread]] = chosen.lane === undefined ? [...grid.holders(chosen.row, chosen.col), [undefined]] : [[chosen.lane]];
    if (thread !== undefined) view(grid, thread);
  }

  function view(grid, thread) {
    const first = grid.every.indexOf(thread);
    if (wide && thread >> 5 !== state.warp) warp(thread >> 5);
    else if (first >= 0 && !grid.block.lanes.includes(thread)) turn(grid, first);
  }

  function warp(number) {
    state.warp = number;
    state.first = 0;
    if (choices.warp) choices.warp.box.selectedIndex = number;
    draw();
  }

  function choose(chosen) {
    const grid = chosen && grids[chosen.block];
    const inside = Boolean(grid) && (chosen.lane === undefined ? chosen.row >= 0 && chosen.row < grid.block.pieces.length && chosen.col >= 0 && chosen.col < grid.block.columns
      : grid.block.slots.has(chosen.lane + "," + chosen.i));
    state.lost = Boolean(chosen) && !inside;
    state.chosen = inside ? chosen : null;
    if (inside) reach(grid, chosen);
    const now = inside && grids[chosen.block];
    show(state.chosen);
    const td = now && (chosen.lane === undefined ? now.cell(chosen.row, chosen.col) : laneCell(now, chosen.lane, chosen.i));
    if (td) focusable(chosen.lane === undefined ? now.table : now.lanes, td);
    return inside;
  }

  function pick(chosen) {
    if (!choose(chosen)) return false;
    address();
    return true;
  }

  /** What is chosen, in the address. */
  function place() {
    const { chosen } = state, part = chosen && chosen.block ? "&block=" + chosen.block : "";
    const slot = !chosen ? "" : chosen.lane === undefined ? "&r=" + chosen.row + "&c=" + chosen.col : "&lane=" + chosen.lane + "&i=" + chosen.i;
    return slot + part + explored.hash();
  }

  function address(step = false) {
    const hash = place() ? "#" + place().slice(1) : location.hash.includes("=") ? "" : location.hash;
    const query = new URLSearchParams();
    if (state.arch !== data.main) query.set("arch", state.arch);
    if (state.size) query.set("n", state.size[0]);
    go(query, hash, step);
  }

  function slotOf(grid, number, td) {
    return { block: number, lane: grid.block.lanes[td.parentNode.sectionRowIndex], i: (td.cellIndex - 1) * (data.register / data.bits) };
  }

  function listen() {
    all(".block").forEach((section, number) => {
      const grid = () => grids[number], matrix = one(".matrix", section), registers = one(".lanes", section), back = () => show(state.chosen);
      onCells(matrix, (td) => pick({ block: number, ...grid().element(td) }), (td) => show({ block: number, ...grid().element(td) }), back);
      onCells(registers, (td) => pick(slotOf(grid(), number, td)), (td) => show(slotOf(grid(), number, td)), back);
      matrix.addEventListener("keydown", (event) => move(event, number, false));
      registers.addEventListener("keydown", (event) => move(event, number, true));
    });
    all("[data-arch]").forEach((chip) => chip.addEventListener("click", (event) => {
      event.preventDefault();
      Object.assign(state, { arch: chip.dataset.arch, unknown: "" });
      address(true);
      draw();
    }));
    addEventListener("popstate", read);
    if (sizes.length) {
      choices.n = select("N", sizes.map(([n]) => String(n)), (at) => {
        state.size = sizes[at];
        address();
        draw();
      });
      one("#n").prepend(choices.n.label, " ");
    }
    if (wide) {
      const count = data.threads / 32;
      choices.warp = select("Warp", Array.from({ length: count }, (_, number) => `${number}: threads ${32 * number} to ${32 * number + 31}`), (number) => {
        state.chosen = null; // what was chosen would bring its own warp back
        address();
        warp(number);
      });
      one(".block").before(choices.warp.label);
    }
  }

  function move(event, number, inLanes) {
    const step = ARROWS[event.key], td = cellOf(event);
    if (!td || (!step && event.key !== "Enter" && event.key !== " ")) return;
    event.preventDefault();
    const now = state.chosen, grid = grids[number], [down, right] = step || [0, 0];
    const fresh = !now || now.block !== number || (now.lane !== undefined) !== inLanes;
    const from = fresh ? (inLanes ? slotOf(grid, number, td) : { block: number, ...grid.element(td) }) : now;
    const next = fresh ? from : inLanes ? { block: number, lane: from.lane + down, i: from.i + right } : { block: number, row: from.row + down, col: from.col + right };
    if (pick(next)) one("[tabindex='0']", inLanes ? grids[number].lanes : grids[number].table).focus();
  }

  function csv(layout) {
    const names = layout.in.map((axis) => axis[0]);
    const lines = [names.concat(layout.out).join()];
    expand(layout).forEach((value, number) => {
      const point = [];
      for (const [, count] of layout.in.slice().reverse()) { point.unshift(number % count); number = Math.floor(number / count); }
      if (value) lines.push(point.concat(value).join());
    });
    all(".tabs").forEach((group) => { const box = one(".csv", group); if (box) box.textContent = lines.join("\n"); });
  }

  function read() {
    const query = new URLSearchParams(location.search), hash = new URLSearchParams(location.hash.slice(1));
    const number = (name) => (hash.has(name) ? parseInt(hash.get(name) || "", 10) : undefined), block = number("block") || 0;
    const wanted = query.get("arch");
    state.arch = wanted !== null && Object.hasOwn(known, wanted) ? wanted : data.main;
    state.unknown = wanted !== null && wanted !== state.arch ? wanted.slice(0, 20) : "";
    const at = Math.max(0, sizes.findIndex(([n]) => String(n) === query.get("n")));
    if (sizes.length) state.size = sizes[at], choices.n.box.selectedIndex = at;
    const thread = explored.read(hash, data.threads);
    if (wide && thread !== undefined) {
      state.warp = thread >> 5;
      choices.warp.box.selectedIndex = state.warp;
    }
    state.chosen = hash.has("lane") ? { block, lane: number("lane"), i: number("i") || 0 } : hash.has("r") ? { block, row: number("r"), col: number("c") || 0 } : null;
    draw();
    if (state.chosen) all(".on").slice(0, 2).reverse().forEach((td) => td.scrollIntoView({ block: "center", inline: "center" }));
  }

  onPaper(".block", draw);
  listen();
  read();
};
