// @ts-check
"use strict";
/**
 * Pictures to explore: all cells of a lane, a register, a quad, a warp; colours by lane, register, warp, byte; where
 * registers begin; on paper. Works on the grids of a page; what a picture is embedded by is in picture.js.
 */
(function (/** @type {typeof globalThis} */ root) {
  const { tcprobe } = root, { all, make, select, colour, holding, lineOf, load } = tcprobe;
  const WARP = 32, QUAD = 4, SHADES = 8, WIDEST = 22; // columns on paper
  /** The number of a slot's lane, register and so on. @type {Record<string, (thread: number, i: number, size: Size) => number>} */
  const NUMBER = {
    lane: (thread) => thread,
    register: (_, i, size) => Math.floor((i * size.bits) / size.register),
    quad: (thread) => Math.floor(thread / QUAD),
    warp: (thread) => Math.floor(thread / WARP),
    byte: (_, i, size) => Math.floor(((i * size.bits) % size.register) / 8),
  };
  const FIRST = /** @type {Record<string, number>} */ ({ lane: 1, quad: QUAD, warp: WARP }); // threads of one
  /** @type {Record<string, string>} */
  const KEYS = { lane: "lane modulo 8", register: "register modulo 8", warp: "warp", byte: "byte of its register" };

  /** Where the controls go; what brings a thread into view; what is done when the address changes. @type {Tcprobe["explore"]} */
  tcprobe.explore = function explore({ place, reach, changed }) {
    let grids = /** @type {Grid[]} */ ([]), by = "lane", kind = "", group = /** @type {Group | null} */ (null), lost = false;
    const bar = make("div", "", "filters"), key = make("p", "", "key soft"), said = make("p", "", "differs"), more = make("details");
    said.setAttribute("aria-live", "polite");
    place.before(bar, key, said, more);

    const wide = () => grids.some((grid) => grid.size.threads > WARP);
    const kinds = () => ["lane", "register", "quad", ...(wide() ? ["warp"] : [])];
    const count = (/** @type {string} */ of) => Math.max(0, ...grids.map(({ size }) => (of === "register" ? (size.elements * size.bits) / size.register : NUMBER[of](size.threads - 1, 0, size) + 1)));

    /** @type {Shades} */
    function shades(slots, span, size) {
      if (by === "byte") return slots.length ? Array.from({ length: Math.ceil((span * size.bits) / 8) }, (_, at) => (NUMBER.byte(0, slots[0][1], size) + at) % SHADES) : [];
      return Array.from(new Set(slots.map(([thread, i]) => (by === "lane" ? colour(thread) : NUMBER[by](thread, i, size) % SHADES)))).slice(0, 2);
    }

    /** @param {HTMLTableCellElement} td @param {number[]} of */
    function shade(td, of) {
      const kept = ["on", "moved", "of"].filter((name) => td.classList.contains(name)), stripes = by === "byte" && of.length > 1, part = 100 / of.length;
      td.className = [...of.slice(0, 2).map((number, at) => "cd"[at] + number), ...kept].join(" ");
      td.style.backgroundImage = stripes ? `linear-gradient(90deg, ${of.map((number, at) => `var(--c${number}) ${at * part}% ${(at + 1) * part}%`).join()})` : "";
    }

    /** Every cell drawn: the slots it shows, its elements, its grid. @param {(td: HTMLTableCellElement, slots: Slot[], span: number, grid: Grid) => void} act */
    function cells(act) {
      for (const grid of grids) {
        grid.rows.forEach((row, at) => grid.block.pieces[row].forEach((piece, number) => act(grid.table.tBodies[0].rows[at].cells[number + 1], piece.holders, piece.span, grid)));
        if (!grid.lanes) continue;
        const { size } = grid, per = size.register / size.bits;
        for (const line of grid.lanes.tBodies[0].rows) {
          const thread = Number(line.cells[0].textContent);
          line.className = by === "lane" ? "c" + colour(thread) : "";
          for (let at = 1; at < line.cells.length; at++) act(line.cells[at], [[thread, (at - 1) * per]], per, grid);
        }
      }
    }

    function paint() {
      cells((td, slots, span, { size, table }) => {
        const inMatrix = table.contains(td), bit = slots.length ? (slots[0][1] * size.bits) % size.register : -1;
        if (inMatrix || by !== "lane") shade(td, shades(slots, span, size));
        else shade(td, []);
        if (inMatrix && bit >= 0) td.dataset.bar = bit === 0 ? "begin" : bit * 2 >= size.register ? "upper" : "";
      });
      const numbers = by === "warp" ? count("warp") : by === "byte" ? Math.max(...grids.map(({ size }) => size.register / 8)) : SHADES;
      key.replaceChildren("Colour: ", ...Array.from({ length: numbers }, (_, at) => make("b", String(at), "c" + (by === "lane" ? colour(at) : at))), ` ${KEYS[by]}.`, make("span", " A thick edge begins a register; a corner marks its upper half.", "screen"));
    }

    /** Mark all cells of a group. @param {Group | null} of */
    function mark(of) {
      all("td.of").forEach((td) => td.classList.remove("of"));
      if (of) cells((td, slots, _, { size }) => { if (slots.some(([thread, i]) => NUMBER[of.kind](thread, i, size) === of.number)) td.classList.add("of"); });
    }

    /** The group of a cell, or of the head of a lane or a register. @returns {Group | null} */
    function groupAt(/** @type {EventTarget | null} */ target) {
      const td = target instanceof Element ? target.closest("td") || target.closest("th") : null, table = td && td.closest("table");
      const grid = table && grids.find((one_) => one_.table === table || one_.lanes === table);
      if (!grid) return null;
      const inLanes = grid.lanes === table, number = Number(td.textContent.replace("r", ""));
      if (td.tagName === "TH") return inLanes ? { kind: td.closest("thead") ? "register" : "lane", number } : null;
      if (!kind || td.cellIndex < 1 || td.closest("thead")) return null;
      const { row, col } = inLanes ? { row: 0, col: 0 } : grid.element(td);
      const slot = inLanes ? [grid.block.lanes[lineOf(td)], ((td.cellIndex - 1) * grid.size.register) / grid.size.bits] : grid.holders(row, col)[0];
      return slot ? { kind, number: NUMBER[kind](slot[0], slot[1], grid.size) } : null;
    }

    /** @param {Group | null} of */
    function choose(of) {
      group = of;
      if (of && of.kind !== "register") reach(of.number * FIRST[of.kind]);
      controls();
      mark(of);
      changed();
      tell();
    }

    const picked = (/** @type {Choice} */ { label, box }, /** @type {number} */ at) => { box.selectedIndex = at; bar.append(label); };
    function controls() {
      const colours = ["lane", "register", ...(wide() ? ["warp"] : []), "byte"], groups = kinds(), from = all("select", bar).findIndex((box) => box === document.activeElement);
      bar.replaceChildren();
      picked(select("Colour by", colours, (at) => { by = colours[at]; paint(); changed(); tell(); }), colours.indexOf(by));
      picked(select("All cells of", ["an element", ...groups.map((one_) => "a " + one_)], (at) => { kind = at ? groups[at - 1] : ""; choose(null); }), groups.indexOf(kind) + 1);
      if (kind) picked(select("which " + kind, ["under the pointer", ...Array.from({ length: count(kind) }, (_, at) => String(at))], (at) => choose(at ? { kind, number: at - 1 } : null)), group ? group.number + 1 : 0);
      if (from >= 0) all("select", bar)[Math.min(from, bar.childElementCount - 1)].focus();
    }

    /** Address, SVG and line to embed, made when they are wanted. */
    function tell() {
      if (more.open) load("picture.js").then(() => tcprobe.picture(more, grids, shades, by === "lane" && !group));
    }
    more.append(make("summary", "This picture: address, SVG, line to embed"));
    more.addEventListener("toggle", tell);

    for (const name of ["mouseover", "focusin"]) addEventListener(name, (event) => { const of = groupAt(event.target); if (of) mark(of); });
    addEventListener("mouseout", (event) => { if (groupAt(event.target)) mark(group); });
    addEventListener("click", (event) => {
      const of = groupAt(event.target);
      if (of && event.target instanceof Element && event.target.closest("th")) kind = of.kind, choose(of);
    });

    return {
      /** What is drawn anew. */
      drawn(now) {
        grids = now.filter((grid) => holding(grid.block).length);
        if (group && group.number >= count(group.kind)) group = null, lost = true;
        controls();
        paint();
        mark(group);
        said.textContent = lost ? "The address has an unknown colour or group: the page shows the default." : "";
        tell();
      },
      /** What the address adds. */
      hash: () => (by === "lane" ? "" : "&colour=" + by) + (group ? `&all=${group.kind},${group.number}` : ""),
      /** Take colour and group from an address; what it names and there is not is said. The thread to bring into view. */
      read(hash, threads) {
        const colour_ = hash.get("colour") || "lane", [of, number] = (hash.get("all") || "").split(",");
        const good = Object.hasOwn(KEYS, colour_) && (colour_ !== "warp" || threads > WARP), whole = /^\d{1,4}$/.test(number || "");
        const groupGood = !of || (Object.hasOwn(NUMBER, of) && of !== "byte" && (of !== "warp" || threads > WARP) && whole);
        lost = !good || !groupGood;
        by = good ? colour_ : "lane";
        group = of && groupGood ? { kind: of, number: Number(number) } : null;
        kind = group ? group.kind : kind;
        return group && of !== "register" ? group.number * FIRST[of] : undefined;
      },
    };
  };

  /** Archs of the same layout and evidence stand together in the data: each by itself. @type {Tcprobe["archs"]} */
  function archs(of) {
    return Object.fromEntries(Object.entries(of).flatMap(([names, at]) => names.split(" ").map((name) => [name, at])));
  }

  /** A wide table in parts, one below the other. Whether there is need. @param {HTMLTableElement} table @param {number} most */
  function inParts(table, most) {
    const heads = all("thead th", table), count = heads.length;
    if (count <= most || heads.some((th) => th.colSpan > 1)) return false;
    all("colgroup", table).forEach((group) => group.remove());
    table.style.width = "";
    table.classList.remove("fixed");
    for (let first = most; first < count; first += most) {
      const part = document.importNode(table, true);
      part.classList.add("part");
      for (const line of part.rows) Array.from(line.cells).forEach((td, at) => { if (at && (at <= first || at > first + most)) td.remove(); });
      part.deleteCaption();
      table.parentElement?.append(part);
    }
    for (const line of table.rows) Array.from(line.cells).slice(most + 1).forEach((td) => td.remove());
    return true;
  }

  /** Tables of some places stand in parts while the page is printed, and are drawn again then. @type {Tcprobe["onPaper"]} */
  function onPaper(places, draw) {
    addEventListener("beforeprint", () => all(places).forEach((place) => {
      place.classList.toggle("parts", all("table", place).map((table) => inParts(table, WIDEST)).some(Boolean));
    }));
    addEventListener("afterprint", () => {
      all(".part").forEach((part) => part.remove());
      all(places).forEach((place) => place.classList.remove("parts"));
      draw();
    });
  }

  Object.assign(tcprobe, { archs, onPaper });
})(globalThis);
