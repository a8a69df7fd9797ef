"use strict";
(function (root) {
  const WIDE = 64;

  // Maps: from GF(2) bases to tables. A point's value is the XOR of the images of the bits set in its inputs.
  function expand(layout) {
    const points = layout.in.reduce((total, axis) => total * axis[1], 1), found = [];
    for (let number = 0; number < points; number++) found.push(layout.values ? given(layout, number) : linear(layout, number));
    for (const [first, count] of layout.unused || []) found.fill(null, first, first + count);
    return found;
  }

  function given(layout, number) {
    const value = layout.values.map((column) => column[number]);
    return value[0] === null ? null : value;
  }

  function linear(layout, number) {
    const value = layout.zero.slice();
    for (const [name, size] of layout.in.slice().reverse()) {
      let input = number % size;
      number = (number - input) / size;
      for (const image of layout.bases[name]) {
        if (input & 1) image.forEach((part, at) => { value[at] ^= part; });
        input >>= 1;
      }
    }
    return value;
  }

  // One matrix for each product of a warp, and for each value of an input before thread and i.
  function blocks(layout, size) {
    const cells = expand(layout), per = size.threads * size.elements, lead = layout.in.slice(0, -2);
    const at = (name) => layout.out.indexOf(name), product = at("product"), col = at("col"), found = [];
    const products = product < 0 ? 1 : 1 + Math.max(...cells.map((cell) => (cell ? cell[product] : 0)));
    for (let first = 0; first < cells.length; first += per) {
      for (let which = 0; which < products; which++) {
        const block = { title: title(lead, first / per, product < 0 ? null : which), holders: new Map(), slots: new Map(),
          flat: col < 0, columns: col < 0 ? 1 : size.cols };
        for (let slot = 0; slot < per; slot++) {
          const cell = cells[first + slot];
          if (cell && (product < 0 || cell[product] === which)) put(block, size, slot, cell[at("row")], col < 0 ? 0 : cell[col]);
        }
        block.pieces = Array.from({ length: size.rows }, (_, row) => pieces(block, size, row));
        found.push(block);
      }
    }
    return found;
  }

  function title(lead, number, product) {
    const words = [];
    for (const [name, size] of lead.slice().reverse()) {
      words.unshift(name + " " + (number % size));
      number = Math.floor(number / size);
    }
    return words.concat(product === null ? [] : ["product " + product]).join(", ");
  }

  function put(block, size, slot, row, col) {
    const i = slot % size.elements, thread = (slot - i) / size.elements, key = row + "," + col;
    block.slots.set(thread + "," + i, [row, col]);
    if (!block.holders.has(key)) block.holders.set(key, []);
    block.holders.get(key).push([thread, i]);
  }

  function pieces(block, size, row) {
    const found = [], per = block.columns >= WIDE ? size.register / size.bits : 1;
    for (let col = 0; col < block.columns; col++) {
      const holders = block.holders.get(row + "," + col) || [], last = found[found.length - 1];
      if (last && goesOn(last, holders, per)) last.span++;
      else found.push({ col, span: 1, holders });
    }
    return found;
  }

  function goesOn(last, holders, per) {
    return holders.length === last.holders.length && holders.every(([thread, i], at) =>
      thread === last.holders[at][0] && i === last.holders[at][1] + last.span && i % per !== 0);
  }

  function text(piece) {
    const threads = new Map();
    for (const [thread, i] of piece.holders) {
      if (!threads.has(thread)) threads.set(thread, []);
      threads.get(thread).push(piece.span === 1 ? i : i + ".." + (i + piece.span - 1));
    }
    return Array.from(threads, ([thread, i]) => thread + ":" + i.join(",")).join(" ");
  }

  function words(elements, flat) {
    if (flat) return elements.map((element) => (element ? element[0] : "-")).join(", ");
    const runs = [];
    for (const element of elements) {
      const run = runs[runs.length - 1];
      if (run && follows(run, element)) run.push(element);
      else runs.push([element]);
    }
    const part = (a, b) => (a === b ? a : a + ".." + b);
    return runs.map((run) => run[0] ? part(run[0][0], run[run.length - 1][0]) + "," + part(run[0][1], run[run.length - 1][1]) : "-").join(" ");
  }

  function follows(run, element) {
    const last = run[run.length - 1];
    if (!last || !element) return false;
    const step = [element[0] - last[0], element[1] - last[1]].join(), before = run[run.length - 2];
    return (step === "0,1" || step === "1,0") && (!before || step === [last[0] - before[0], last[1] - before[1]].join());
  }

  const colour = (thread) => (thread & 3) + 4 * ((thread >> 2) & 1);

  function classes(piece) {
    const threads = piece.holders.map((holder) => holder[0]), other = threads.find((thread) => thread !== threads[0]);
    return threads.length ? "c" + colour(threads[0]) + (other === undefined ? "" : " d" + colour(other)) : "";
  }

  // Tables, made of numbers only.
  const tag = (name, content, of, span) => "<" + name + (of ? ' class="' + of + '"' : "") + (span > 1 ? " colspan=" + span : "") + ">" + content + "</" + name + ">";

  function matrixRows(block) {
    const step = Math.max(...block.pieces[0].map((piece) => piece.span));
    let heads = "";
    for (let col = 0; col < block.columns; col += step) heads += tag("th", col, "", step);
    const body = block.pieces.map((row, number) => tag("tr", tag("th", number) + row.map((piece) => tag("td", text(piece), classes(piece), piece.span)).join("")));
    return "<thead><tr><td></td>" + heads + "</tr></thead><tbody>" + body.join("") + "</tbody>";
  }

  function laneRows(block, size) {
    const per = size.register / size.bits, count = size.elements / per;
    const used = Array.from(new Set(Array.from(block.slots.keys(), (key) => parseInt(key, 10)))).sort((a, b) => a - b);
    block.lanes = used;
    let heads = "", body = "";
    for (let number = 0; number < count; number++) heads += tag("th", "r" + number);
    for (const thread of used) {
      let cells = tag("th", thread);
      for (let start = 0; start < size.elements; start += per) {
        const elements = Array.from({ length: per }, (_, at) => block.slots.get(thread + "," + (start + at)) || null);
        cells += tag("td", words(elements, block.flat));
      }
      body += tag("tr", cells, "c" + colour(thread));
    }
    return "<thead><tr><td></td>" + heads + "</tr></thead><tbody>" + body + "</tbody>";
  }

  root.tcprobe = { expand, blocks, matrixRows, laneRows };
  if (typeof document === "undefined") return;

  const one = (selector, from) => (from || document).querySelector(selector);
  const all = (selector, from) => Array.from((from || document).querySelectorAll(selector));
  const make = (name, content, of) => {
    const element = document.createElement(name);
    element.textContent = content || "";
    if (of) element.className = of;
    return element;
  };
  const source = one("#data"), data = source ? JSON.parse(source.textContent) : {};
  const home = document.currentScript.getAttribute("src").slice(0, -7);

  const fill = (table, rows) => {
    const caption = table.caption;
    table.innerHTML = rows;
    if (caption) table.prepend(caption);
  };
  const clear = (table, of) => all("." + of, table).forEach((td) => td.classList.remove(of));

  // A matrix on the page: cells by element and the other way round.
  class Grid {
    constructor(table, block, size) {
      Object.assign(this, { table, block, size, axis: size.threads > 32 ? "thread " : "lane " });
    }
    cell(row, col) {
      const number = this.block.pieces[row].findIndex((piece) => col >= piece.col && col < piece.col + piece.span);
      return this.table.tBodies[0].rows[row].cells[number + 1];
    }
    element(td) {
      const row = td.parentNode.rowIndex - 1;
      return { row, col: this.block.pieces[row][td.cellIndex - 1].col };
    }
    mark(of, elements) {
      clear(this.table, of);
      elements.forEach(([row, col]) => this.cell(row, col).classList.add(of));
    }
    holders(row, col) {
      return this.block.holders.get(row + "," + col) || [];
    }
    where(row, col) {
      return this.holders(row, col).map((slot) => this.axis + slot[0] + ", i " + slot[1]).join("; ") || "nowhere";
    }
    named(row, col) {
      return this.size.name + "[" + row + "]" + (this.block.flat ? "" : "[" + col + "]");
    }
    place(i) {
      const bit = (i * this.size.bits) % this.size.register, number = Math.floor((i * this.size.bits) / this.size.register);
      return ", register " + number + ", bits " + bit + " to " + (bit + this.size.bits - 1);
    }
  }

  const cellOf = (event) => {
    const td = event.target.closest("td");
    return td && td.cellIndex > 0 && td.closest("tbody") ? td : null;
  };

  function onCells(table, choose, over, out) {
    const on = (kind, act) => table.addEventListener(kind, (event) => { const td = cellOf(event); if (td) act(td); });
    on("click", (td) => { choose(td); td.focus(); });
    if (over) on("mouseover", over), table.addEventListener("mouseleave", out);
  }

  const ARROWS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

  function focusable(table, td) {
    all("[tabindex]", table).forEach((other) => { other.tabIndex = -1; });
    td.tabIndex = 0;
  }

  // The page of a fragment.
  function factPage() {
    const readout = one("#readout"), state = { arch: data.main, chosen: null, size: (data.sizes || [])[0] };
    let grids = [];
    // the page says its formula once, and has no element around a head and its code
    one(".tabs").prepend(make("h3", "Formula"), make("pre", one("#formula").textContent));
    all(".tabs > pre").forEach((pre) => {
      const part = make("div", "", "copy");
      part.append(pre.previousElementSibling, pre.cloneNode(true));
      pre.replaceWith(part);
    });
    // archs of the same layout and evidence stand together
    for (const [names, at] of Object.entries(data.archs)) names.split(" ").forEach((name) => { data.archs[name] = at; });
    all(".strip a").forEach((chip) => { chip.dataset.arch = new URLSearchParams(chip.search).get("arch"); });
    // of a fragment whose N can be chosen: as many elements of the largest as that N has
    const sized = () => ({ ...data, ...(state.size && { cols: state.size[1], elements: state.size[2] }) });
    const layoutOf = (arch) => {
      const layout = data.layouts[data.archs[arch][0]];
      return state.size ? { ...layout, in: layout.in.map(([name, count]) => [name, name === "i" ? state.size[2] : count]) } : layout;
    };

    function draw() {
      const size = sized(), found = blocks(layoutOf(state.arch), size);
      const before = state.arch === data.main ? null : blocks(layoutOf(data.main), size);
      grids = found.map((block, number) => {
        const section = all(".block")[number], grid = new Grid(one(".matrix", section), block, size);
        fill(grid.table, matrixRows(block));
        grid.lanes = one(".lanes", section);
        fill(grid.lanes, laneRows(block, size));
        focusable(grid.table, grid.cell(0, 0));
        return grid;
      });
      compare(before);
      csv(layoutOf(data.main));
      if (state.size) one("#n a").textContent = state.size[3], one("#n a").href = home + "l/" + state.size[3] + ".html";
      all("[data-layout]").forEach((part) => { part.hidden = part.dataset.layout !== layoutOf(state.arch).id; });
      one("#formula").textContent = one(".tabs:not([hidden]) pre").textContent;
      all("[data-arch]").forEach((arch) => arch.toggleAttribute("aria-current", arch.dataset.arch === state.arch));
      one("#evidence").textContent = state.arch + ": " + data.evidence[data.archs[state.arch][1]] + ".";
      choose(state.chosen);
    }

    function compare(before) {
      let total = 0, count = 0;
      const moved = grids.map((grid, number) => {
        const found = [];
        grid.block.pieces.forEach((_, row) => {
          for (let col = 0; col < grid.block.columns; col++) {
            total++;
            const key = row + "," + col;
            if (before && String(before[number].holders.get(key)) !== String(grid.block.holders.get(key))) found.push([row, col]);
          }
        });
        count += found.length;
        return found;
      });
      grids.forEach((grid, number) => grid.mark("moved", 2 * count < total ? moved[number] : []));
      one("#differs").textContent = !before ? "" : count ? count + " of " + total + " elements are held elsewhere than on " + data.main + "." : "The same table as on " + data.main + ".";
    }

    // What is chosen: {block, row, col} an element, or {block, lane, i} a slot.
    function show(chosen) {
      grids.forEach((grid) => {
        grid.mark("on", []);
        clear(grid.lanes, "on");
      });
      if (!chosen) return void (readout.textContent = readout.dataset.hint);
      const grid = grids[chosen.block], element = chosen.lane === undefined ? [chosen.row, chosen.col] : grid.block.slots.get(chosen.lane + "," + chosen.i);
      if (!element) return void (readout.textContent = grid.axis + chosen.lane + ", i " + chosen.i + " holds nothing");
      grid.mark("on", [element]);
      const slots = chosen.lane === undefined ? grid.holders(...element) : [[chosen.lane, chosen.i]];
      slots.forEach(([thread, i]) => laneCell(grid, thread, i).classList.add("on"));
      const axis = grid.axis;
      readout.textContent = grid.named(...element) + ": " + (slots.map(([thread, i]) => axis + thread + ", i " + i + grid.place(i)).join("; ") || "nowhere") + (grid.block.title && " (" + grid.block.title + ")");
    }

    function laneCell(grid, thread, i) {
      return grid.lanes.tBodies[0].rows[grid.block.lanes.indexOf(thread)].cells[1 + Math.floor((i * data.bits) / data.register)];
    }

    function choose(chosen) {
      const grid = chosen && grids[chosen.block];
      const inside = grid && (chosen.lane === undefined ? chosen.row >= 0 && chosen.row < grid.block.pieces.length && chosen.col >= 0 && chosen.col < grid.block.columns
        : grid.block.slots.has(chosen.lane + "," + chosen.i));
      state.chosen = inside ? chosen : null;
      show(state.chosen);
      if (inside && chosen.lane === undefined) focusable(grid.table, grid.cell(chosen.row, chosen.col));
      if (inside && chosen.lane !== undefined) focusable(grid.lanes, laneCell(grid, chosen.lane, chosen.i));
      return inside;
    }

    function pick(chosen) {
      if (!choose(chosen)) return false;
      const part = chosen.block ? "&block=" + chosen.block : "";
      address("#" + (chosen.lane === undefined ? "r=" + chosen.row + "&c=" + chosen.col : "lane=" + chosen.lane + "&i=" + chosen.i) + part);
      return true;
    }

    function address(hash) {
      const query = new URLSearchParams();
      if (state.arch !== data.main) query.set("arch", state.arch);
      if (state.size) query.set("n", state.size[0]);
      const to = location.pathname + (String(query) && "?" + query) + hash;
      try {
        history.replaceState(null, "", to);
      } catch (error) {
        // an address of a file takes no other query
        location.replace(to);
      }
    }

    function slotOf(grid, number, td) {
      return { block: number, lane: grid.block.lanes[td.parentNode.rowIndex - 1], i: (td.cellIndex - 1) * (data.register / data.bits) };
    }

    function listen() {
      all(".block").forEach((section, number) => {
        const grid = () => grids[number], matrix = one(".matrix", section), lanes = one(".lanes", section), back = () => show(state.chosen);
        onCells(matrix, (td) => pick({ block: number, ...grid().element(td) }), (td) => show({ block: number, ...grid().element(td) }), back);
        onCells(lanes, (td) => pick(slotOf(grid(), number, td)), (td) => show(slotOf(grid(), number, td)), back);
        matrix.addEventListener("keydown", (event) => move(event, number, false));
        lanes.addEventListener("keydown", (event) => move(event, number, true));
      });
      all("[data-arch]").forEach((link) => link.addEventListener("click", (event) => {
        event.preventDefault();
        state.arch = link.dataset.arch;
        draw();
        address(location.hash);
      }));
      addEventListener("hashchange", read);
      if (data.sizes) {
        const box = make("select"), label = make("label", "N ");
        data.sizes.forEach(([n]) => box.append(make("option", String(n))));
        label.append(box);
        one("#n").prepend(label, " ");
        box.addEventListener("change", () => {
          state.size = data.sizes[box.selectedIndex];
          draw();
          address(location.hash);
        });
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
      if (pick(next)) one("[tabindex='0']", inLanes ? grid.lanes : grid.table).focus();
    }

    function read() {
      const query = new URLSearchParams(location.search), hash = new URLSearchParams(location.hash.slice(1));
      const number = (name) => (hash.has(name) ? parseInt(hash.get(name), 10) : undefined), block = number("block") || 0;
      if (Object.hasOwn(data.archs, query.get("arch"))) state.arch = query.get("arch");
      const wanted = (data.sizes || []).findIndex(([n]) => String(n) === query.get("n"));
      if (wanted > 0) state.size = data.sizes[wanted], one("#n select").selectedIndex = wanted;
      state.chosen = hash.has("lane") ? { block, lane: number("lane"), i: number("i") || 0 } : hash.has("r") ? { block, row: number("r"), col: number("c") || 0 } : null;
      draw();
      if (state.chosen) one(".on").scrollIntoView({ block: "nearest", inline: "nearest" });
    }

    listen();
    read();
  }

  // The page of a multiply: A left, B above, D lower right; what meets what.
  function instructionPage() {
    all(".composite").forEach((section, number) => {
      const grids = {}, span = (length, pair) => Array.from({ length }, (_, at) => pair(at));
      for (const [name, operand] of Object.entries(data.operands)) {
        const found = blocks(operand.layout, operand), table = make("table", "", "matrix");
        const grid = grids[name] = new Grid(table, found[number] || found[0], operand);
        fill(table, matrixRows(grid.block));
        table.createCaption().textContent = operand.name + " " + operand.rows + " x " + operand.cols;
        one(".in-" + name, section).replaceChildren(table);
        focusable(table, grid.cell(0, 0));
        onCells(table, (td) => { focusable(table, td); trace(name, grid.element(td)); });
        table.addEventListener("keydown", (event) => {
          const [down, right] = ARROWS[event.key] || [0, 0], td = cellOf(event);
          const next = td && (table.tBodies[0].rows[td.parentNode.rowIndex - 1 + down] || td.parentNode).cells[td.cellIndex + right];
          if (!next || next.tagName !== "TD" || !(down || right || event.key === "Enter")) return;
          event.preventDefault();
          focusable(table, next);
          next.focus();
          trace(name, grid.element(next));
        });
      }
      const { a, b, d } = grids, paired = a && b && a.size.cols === b.size.rows;
      const along = (grid, row, col) => !grid ? [] : row === null ? span(grid.size.rows, (n) => [n, col]) : col === null ? span(grid.size.cols, (n) => [row, n]) : [[row, col]];
      function trace(name, { row, col }) {
        const inA = along(a, ...(name === "d" ? [row, null] : name === "a" ? [row, col] : [null, row])), inB = along(b, ...(name === "d" ? [null, col] : name === "b" ? [row, col] : [col, null]));
        const inD = along(d, ...(name === "d" ? [row, col] : name === "a" ? [row, null] : [null, col]));
        const marks = [[a, name === "b" && !paired ? [] : inA], [b, name === "a" && !paired ? [] : inB], [d, inD]].filter(([grid]) => grid);
        marks.forEach(([grid, cells]) => grid.mark("on", cells));
        one("#readout").textContent = grids[name].named(row, col) + ": " + grids[name].where(row, col);
        one("#meets").replaceChildren(...span(paired ? Math.max(inA.length, inB.length) : 0, (n) => make("li", marks.map(([grid, cells]) => {
          const place = cells[cells.length > 1 ? n : 0];
          return grid.named(...place) + " (" + grid.where(...place) + ")";
        }).join(" · "))));
      }
    });
  }

  // What differs between two archs.
  function diffPage() {
    const query = new URLSearchParams(location.search), ids = fragments(), boxes = all("#diff select");
    const list = (members) => {
      const found = make("ul");
      for (const id of members) found.append(make("li")), found.lastChild.append(link(id));
      return found;
    };
    function show() {
      const names = boxes.map((box) => box.value), at = names.map((name) => data.archs.indexOf(name)), parts = [];
      const folded = { "have the same table on both": [], ["have a table on " + names[0] + " only"]: [], ["have a table on " + names[1] + " only"]: [] };
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
  }

  // Names, addresses and the search box.
  const fragments = () => (root.tcprobeNames || []).flatMap(([prefix, lasts]) => lasts.split(" ").map((last) => prefix + "." + last));
  const OTHER_WORDS = { accumulator: /\.[cd](\.|$)/, metadata: /\.e$/ }, FILLERS = RegExp("^(layout|registers?|fragment|matrix|sync|aligned|cuda|ptx)$");

  function link(id, query) {
    const found = make("a", id);
    found.href = home + "f/" + id.replaceAll("::", "--") + ".html" + (query || "");
    return found;
  }

  function search() {
    const place = make("div", "", "find");
    place.setAttribute("role", "search");
    place.innerHTML = '<label for="search" class="soft">Search <kbd>/</kbd></label> <input id="search" type="search" autocomplete="off" placeholder="m16n8k16 f16 a" aria-controls="results"><span id="count" class="soft" aria-live="polite"></span><ul id="results" aria-label="Found" hidden></ul>';
    one("header").append(place);
    const box = one("#search"), found = one("#results");
    function load() {
      if (one("#names")) return;
      const script = make("script");
      script.id = "names";
      script.src = home + "search.js";
      script.addEventListener("load", show);
      document.head.append(script);
    }
    function show() {
      const terms = box.value.toLowerCase().split(/[\s,.]+/).filter((term) => term && !FILLERS.test(term));
      const arch = terms.find((term) => /^sm_\d+$/.test(term)), wanted = terms.filter((term) => term !== arch);
      // a page for every N names none
      const n = (box.value.match(/m64n(\d+)/) || [])[1];
      const says = (id, term) => id.includes(term) || id.includes(term.replace(/^m64n\d+/, "m64nN"));
      const fits = (id) => wanted.every((term) => (OTHER_WORDS[term] ? OTHER_WORDS[term].test(id) : says(id, term)));
      const hits = terms.length ? fragments().filter(fits) : [];
      found.replaceChildren(...hits.slice(0, 20).map((id) => {
        const item = make("li");
        const query = [arch && "arch=" + arch, n && id.includes("nNk") && "n=" + n].filter(Boolean).join("&");
        item.append(link(id, query && "?" + query));
        return item;
      }));
      one("#count").textContent = terms.length ? " " + hits.length + " found" + (hits.length > 20 ? ", 20 shown" : "") : "";
      found.hidden = !hits.length;
    }
    box.addEventListener("focus", load);
    box.addEventListener("input", () => { load(); show(); });
    addEventListener("keydown", (event) => {
      const links = all("a", found), at = links.indexOf(document.activeElement), step = (ARROWS[event.key] || [0])[0];
      if (event.key === "/" && !/^(INPUT|SELECT)$/.test(event.target.tagName)) {
        event.preventDefault();
        box.focus();
      } else if (step && links.length && (at >= 0 || event.target === box)) {
        event.preventDefault();
        (links[at + step] || (step < 0 ? box : links[at])).focus();
      } else if (event.key === "Escape") found.hidden = true;
      else if (event.key === "Enter" && event.target === box && links[0]) location.href = links[0].href;
    });
  }

  function filters() {
    const boxes = all("[data-filter]");
    const apply = () => all("tbody tr[data-family]").forEach((row) => {
      row.hidden = !boxes.every((box) => !box.value || (" " + row.dataset[box.dataset.filter] + " ").includes(" " + box.value + " "));
    });
    boxes.forEach((box) => box.addEventListener("change", apply));
    if (boxes.length) apply();
  }

  // Sections shown one at a time: code by language, phases of an access.
  function tabs() {
    all(".tabs").forEach((group) => {
      const parts = all(":scope > div", group), bar = make("div", "", "bar");
      bar.setAttribute("role", "tablist");
      const pick = (chosen, focus) => parts.forEach((part, number) => {
        const button = bar.children[number];
        part.hidden = number !== chosen;
        button.setAttribute("aria-selected", String(number === chosen));
        button.tabIndex = number === chosen ? 0 : -1;
        if (number === chosen && focus) button.focus();
      });
      parts.forEach((part, number) => {
        const button = make("button", one("h3", part).textContent);
        button.setAttribute("role", "tab");
        part.setAttribute("role", "tabpanel");
        part.setAttribute("aria-label", button.textContent);
        button.addEventListener("click", () => pick(number));
        bar.append(button);
      });
      bar.addEventListener("keydown", (event) => {
        const step = (ARROWS[event.key] || [0, 0])[1], now = Array.from(bar.children).indexOf(document.activeElement);
        if (step) pick((now + step + parts.length) % parts.length, true);
      });
      group.prepend(bar);
      group.classList.add("live");
      pick(0);
    });
    all(".copy").forEach((part) => {
      const button = make("button", "Copy", "small");
      button.addEventListener("click", () => navigator.clipboard.writeText(one("pre", part).textContent).then(() => { button.textContent = "Copied"; }));
      part.prepend(button);
    });
  }

  function csv(layout) {
    const box = one("#csv"), names = layout.in.map((axis) => axis[0]);
    const lines = [names.concat(layout.out).join()];
    expand(layout).forEach((value, number) => {
      const point = [];
      for (const [, size] of layout.in.slice().reverse()) { point.unshift(number % size); number = Math.floor(number / size); }
      if (value) lines.push(point.concat(value).join());
    });
    box.textContent = lines.join("\n");
  }

  // The page of a layout: cells in the colours of the threads that they name.
  function layoutPage() {
    all(".pair .matrix tbody td").forEach((td) => {
      td.className = classes({ holders: td.textContent ? td.textContent.split(" ").map((holder) => [parseInt(holder, 10)]) : [] });
    });
    all(".lanes tbody tr").forEach((line) => { line.className = "c" + colour(line.cells[0].textContent); });
  }

  document.documentElement.classList.add("js");
  const pages = { fact: factPage, instruction: instructionPage, diff: diffPage };
  search();
  filters();
  (pages[data.kind] || layoutPage)();
  tabs();
})(globalThis);
