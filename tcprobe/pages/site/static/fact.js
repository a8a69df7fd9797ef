// @ts-check
"use strict";
/**
 * The page of a fragment: another arch, another N, another warp; what is chosen in the matrix and in the registers.
 * @param {FactData} data
 */
tcprobe.pages.fact = function factPage(data) {
  const { one, all, make, home, ARROWS, Grid, blocks, laneRows, holding, rowsOf, fill, clear, explore, select, go, carry } = tcprobe;
  const { cellOf, lineOf, onCells, focusable, expand, archs, sized, onPaper } = tcprobe;
  const MOST = 5000; // cells of matrix and registers together
  const readout = one("#readout"), chips = all(".strip a"), sizes = data.sizes || [], known = archs(data.archs), wide = data.threads > 32;
  const state = { arch: data.main, chosen: /** @type {Chosen | null} */ (null), size: /** @type {OfN | undefined} */ (sizes[0]), warp: 0, first: 0, unknown: "", lost: false };
  const choices = { n: /** @type {Choice | null} */ (null), warp: /** @type {Choice | null} */ (null), lanes: /** @type {Choice | null} */ (null) };
  let grids = /** @type {Paired[]} */ ([]);

  // the page says its formula once, and has no element around a head and its code
  one(".tabs").prepend(make("h3", "Formula"), make("pre", one("#formula").textContent));
  all(".tabs > pre").forEach((pre) => {
    const part = make("div", "", "copy"), head = pre.previousElementSibling;
    pre.before(part);
    part.append(head || "", pre);
  });
  const written = new Map(all(".tabs pre").map((pre) => [pre, pre.textContent]));
  const explored = explore({ place: one(".block"), reach: (thread) => view(grids[0], thread), changed: () => address() });

  /** @returns {Size} */
  const size = () => ({ ...data, ...(state.size && { cols: state.size[1], elements: state.size[2] }) });
  const layoutOf = (/** @type {string} */ arch) => sized(data.layouts[known[arch][0]], state.size?.[2]);

  function draw() {
    const of = size(), layout = layoutOf(state.arch), sections = all(".block");
    grids = blocks(layout, of).map((block, number) => {
      const grid = new Grid(one("table.matrix", sections[number]), block, of, wide ? rowsOf(block, state.warp) : undefined);
      return lanes(Object.assign(grid, { lanes: one("table.lanes", sections[number]), every: [], shown: 0 }));
    });
    compare(state.arch === data.main ? null : blocks(layoutOf(data.main), of));
    csv(layout);
    if (state.size) one("#n a").textContent = state.size[3], one("#n a").href = home + "l/" + state.size[3] + ".html";
    provenance();
    explored.drawn(grids);
    choose(state.chosen);
  }

  /** The registers of the lanes of a warp; of a large fragment of as many lanes as there is room for. @param {Paired} grid */
  function lanes(grid) {
    const every = grid.every = holding(grid.block).filter((thread) => !wide || thread >> 5 === state.warp);
    const registers = grid.size.elements * grid.size.bits / grid.size.register;
    const room = MOST - grid.rows.length * grid.block.pieces[grid.rows[0]].length;
    let shown = every.length;
    while (shown > 4 && shown * registers > room) shown >>= 1;
    grid.shown = shown;
    page(grid);
    choices.lanes?.label.remove();
    choices.lanes = null;
    if (shown === every.length) return grid;
    const starts = every.filter((_, number) => number % shown === 0);
    choices.lanes = select("Registers of threads", starts.map((thread) => thread + " to " + (thread + shown - 1)), (at) => turn(grid, at * shown));
    choices.lanes.box.selectedIndex = state.first / shown;
    grid.lanes.closest(".scroll")?.before(choices.lanes.label);
    return grid;
  }

  /** Draw the registers from the first thread that is shown. @param {Paired} grid */
  function page(grid) {
    if (state.first >= grid.every.length) state.first = 0;
    state.first -= state.first % grid.shown;
    fill(grid.lanes, laneRows(grid.block, grid.size, grid.every.slice(state.first, state.first + grid.shown)));
  }

  /** @param {Paired} grid @param {number} first */
  function turn(grid, first) {
    state.first = first;
    page(grid);
    if (choices.lanes) choices.lanes.box.selectedIndex = state.first / grid.shown;
    explored.drawn(grids);
    show(state.chosen);
  }

  /** All that depends on the arch. */
  function provenance() {
    const { arch } = state, at = data.known[known[arch][1]], verdicts = data.verdicts[at.verdicts], layout = layoutOf(arch), main = arch === data.main;
    for (const part of all("[data-layout]")) {
      part.hidden = part.dataset.layout !== layout.id;
      for (const pre of part.dataset.as ? all("pre:not(.csv)", part) : []) pre.textContent = String(written.get(pre)).replaceAll(`on ${part.dataset.as}, layout`, `on ${arch}, layout`);
    }
    one("#formula").textContent = one(".tabs:not([hidden]) pre").textContent;
    chips.forEach((chip) => chip.toggleAttribute("aria-current", chip.dataset.arch === arch));
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
    one("a#of-arch").href = home + "a/" + arch + ".html";
    one("#of-arch").textContent = "All of " + arch;
    one("a#of-data").href = home + (main ? data.page : "json/all.json");
    one("#of-data").textContent = main ? "Data on " + arch : "Data of all archs";
    carry(main ? "" : arch);
  }

  const row = (/** @type {HTMLElement[]} */ ...cells) => { const line = make("tr"); line.append(...cells); return line; };

  /** @param {Verdict} verdict */
  function verdict([source, said, detail, erratum]) {
    const words = make("td", detail);
    if (erratum) words.append(make("br"), "Erratum: " + erratum);
    return row(make("td", source), make("td", said, said === "not covered" ? "" : said), words);
  }

  /** Mark what is held elsewhere than on the main arch. @param {Block[] | null} before */
  function compare(before) {
    let total = 0, count = 0;
    const moved = grids.map(({ block }, number) => {
      const found = /** @type {At[]} */ ([]);
      block.pieces.forEach((_, line) => {
        for (let col = 0; col < block.columns; col++) {
          total++;
          const key = line + "," + col;
          if (before && String(before[number].holders.get(key)) !== String(block.holders.get(key))) found.push([line, col]);
        }
      });
      count += found.length;
      return found;
    });
    grids.forEach((grid, number) => grid.mark("moved", 2 * count < total ? moved[number] : []));
    one("#differs").textContent = state.unknown ? `${state.unknown} has no table here: shown is ${data.main}.` : !before ? "" : count ? count + " of " + total + " elements are held elsewhere than on " + data.main + "." : "The same table as on " + data.main + ".";
  }

  /** The element that is chosen, and the slots that hold it; of a slot its own element, undefined where it holds nothing. @param {Chosen} chosen @returns {{element: At | undefined, slots: Slot[]}} */
  function meant(chosen) {
    const { block, holders } = grids[chosen.block];
    if ("lane" in chosen) return { element: block.slots.get(chosen.lane + "," + chosen.i), slots: [[chosen.lane, chosen.i]] };
    return { element: [chosen.row, chosen.col], slots: grids[chosen.block].holders(chosen.row, chosen.col) };
  }

  /** @param {Chosen | null} chosen */
  function show(chosen) {
    grids.forEach((grid) => {
      grid.mark("on", []);
      clear(grid.lanes, "on");
    });
    if (!chosen) return void (readout.textContent = (state.lost ? "The address names no element of this matrix. " : "") + readout.dataset.hint);
    const grid = grids[chosen.block], { axis } = grid, { element, slots } = meant(chosen);
    if (!element) return void (readout.textContent = axis + slots[0].join(", i ") + " holds nothing");
    grid.mark("on", [element]);
    slots.forEach((slot) => laneCell(grid, slot)?.classList.add("on"));
    readout.textContent = grid.named(...element) + ": " + (slots.map(([thread, i]) => axis + thread + ", i " + i + grid.place(i)).join("; ") || "nowhere") + (grid.block.title && " (" + grid.block.title + ")");
  }

  /** The cell of a slot, where its register is drawn. @param {Paired} grid @param {Slot} slot */
  function laneCell(grid, [thread, i]) {
    return grid.lanes.tBodies[0].rows[grid.block.lanes.indexOf(thread)]?.cells[1 + Math.floor((i * data.bits) / data.register)];
  }

  /** A thread's warp and lanes come into view. @param {Paired} grid @param {number} thread */
  function view(grid, thread) {
    const first = grid.every.indexOf(thread);
    if (wide && thread >> 5 !== state.warp) warp(thread >> 5);
    else if (first >= 0 && !grid.block.lanes.includes(thread)) turn(grid, first);
  }

  /** @param {number} number */
  function warp(number) {
    state.warp = number;
    state.first = 0;
    if (choices.warp) choices.warp.box.selectedIndex = number;
    draw();
  }

  /** Choose what there is; whether it is. @param {Chosen | null} chosen */
  function choose(chosen) {
    const grid = chosen && grids[chosen.block], inside = Boolean(grid && ("lane" in chosen ? meant(chosen).element : grid.has(chosen)));
    state.lost = Boolean(chosen) && !inside;
    state.chosen = inside ? chosen : null;
    if (chosen && inside) {
      const [slot] = meant(chosen).slots;
      if (slot) view(grids[chosen.block], slot[0]);
      const now = grids[chosen.block], td = "lane" in chosen ? laneCell(now, [chosen.lane, chosen.i]) : now.cell(chosen.row, chosen.col);
      if (td) focusable("lane" in chosen ? now.lanes : now.table, td);
    }
    show(state.chosen);
    return inside;
  }

  /** @param {Chosen} chosen */
  function pick(chosen) {
    if (!choose(chosen)) return false;
    address();
    return true;
  }

  /** What is chosen, in the address. */
  function place() {
    const { chosen } = state, part = chosen?.block ? "&block=" + chosen.block : "";
    const slot = !chosen ? "" : "lane" in chosen ? "&lane=" + chosen.lane + "&i=" + chosen.i : "&r=" + chosen.row + "&c=" + chosen.col;
    return slot + part + explored.hash();
  }

  function address(step = false) {
    const hash = place() ? "#" + place().slice(1) : location.hash.includes("=") ? "" : location.hash;
    const query = new URLSearchParams();
    if (state.arch !== data.main) query.set("arch", state.arch);
    if (state.size) query.set("n", String(state.size[0]));
    go(query, hash, step);
  }

  /** What a cell of the matrix or of the registers stands for. @param {number} block @param {HTMLTableCellElement} td @param {boolean} inLanes @returns {Chosen} */
  function chosenBy(block, td, inLanes) {
    const grid = grids[block];
    return inLanes ? { block, lane: grid.block.lanes[lineOf(td)], i: (td.cellIndex - 1) * (data.register / data.bits) } : { block, ...grid.element(td) };
  }

  function listen() {
    all(".block").forEach((section, number) => [one("table.matrix", section), one("table.lanes", section)].forEach((table, which) => {
      const of = (/** @type {HTMLTableCellElement} */ td) => chosenBy(number, td, which > 0);
      onCells(table, (td) => pick(of(td)), (td) => show(of(td)), () => show(state.chosen));
      table.addEventListener("keydown", (event) => move(event, number, which > 0));
    }));
    for (const chip of chips) {
      const arch = chip.dataset.arch = String(new URLSearchParams(chip.search).get("arch"));
      chip.addEventListener("click", (event) => {
        event.preventDefault();
        Object.assign(state, { arch, unknown: "" });
        address(true);
        draw();
      });
    }
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

  /** Arrow keys go on from what is chosen, also where that is not drawn yet. @param {KeyboardEvent} event @param {number} block @param {boolean} inLanes */
  function move(event, block, inLanes) {
    const step = ARROWS[event.key], td = cellOf(event);
    if (!td || (!step && event.key !== "Enter" && event.key !== " ")) return;
    event.preventDefault();
    const now = state.chosen, [down, right] = step || [0, 0];
    const next = !now || now.block !== block || "lane" in now !== inLanes ? chosenBy(block, td, inLanes)
      : "lane" in now ? { block, lane: now.lane + down, i: now.i + right } : { block, row: now.row + down, col: now.col + right };
    if (pick(next)) one("[tabindex='0']", inLanes ? grids[block].lanes : grids[block].table).focus();
  }

  /** @param {Layout} layout */
  function csv(layout) {
    const lines = [[...layout.in.map(([name]) => name), ...layout.out].join()];
    expand(layout).forEach((value, number) => {
      const point = /** @type {number[]} */ ([]);
      for (const [, count] of layout.in.slice().reverse()) { point.unshift(number % count); number = Math.floor(number / count); }
      if (value) lines.push(point.concat(value).join());
    });
    all(".tabs .csv").forEach((box) => { box.textContent = lines.join("\n"); });
  }

  function read() {
    const query = new URLSearchParams(location.search), hash = new URLSearchParams(location.hash.slice(1));
    const number = (/** @type {string} */ name) => parseInt(hash.get(name) || "", 10), block = number("block") || 0;
    const wanted = query.get("arch");
    state.arch = wanted !== null && Object.hasOwn(known, wanted) ? wanted : data.main;
    state.unknown = wanted !== null && wanted !== state.arch ? wanted.slice(0, 20) : "";
    const at = Math.max(0, sizes.findIndex(([n]) => String(n) === query.get("n")));
    state.size = sizes[at];
    if (choices.n) choices.n.box.selectedIndex = at;
    const thread = explored.read(hash, data.threads);
    if (choices.warp && thread !== undefined) {
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
