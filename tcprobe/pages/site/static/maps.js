// @ts-check
"use strict";
/** Maps: from GF(2) bases to tables, and tables as rows of HTML. Works without a page, too. */
(function (/** @type {typeof globalThis} */ root) {
  const WIDE = 64;

  // A point's value is the XOR of the images of the bits set in its inputs.
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

  /** The threads that hold anything. @param {Block} block */
  const holding = (block) => Array.from(new Set(Array.from(block.slots.keys(), (key) => parseInt(key, 10)))).sort((a, b) => a - b);

  /** The rows of which a warp holds anything. @param {Block} block @param {number} warp */
  function rowsOf(block, warp) {
    const rows = new Set();
    for (const [key, [row]] of block.slots) if (parseInt(key, 10) >> 5 === warp) rows.add(row);
    return Array.from(rows).sort((a, b) => a - b);
  }

  const colour = (thread) => (thread & 3) + 4 * ((thread >> 2) & 1);

  function classes(piece) {
    const threads = piece.holders.map((holder) => holder[0]), other = threads.find((thread) => thread !== threads[0]);
    return threads.length ? "c" + colour(threads[0]) + (other === undefined ? "" : " d" + colour(other)) : "";
  }

  // Tables, made of numbers only.
  const tag = (name, content, of, span) => "<" + name + (of ? ' class="' + of + '"' : "") + (span > 1 ? " colspan=" + span : "") + ">" + content + "</" + name + ">";

  /** @param {Block} block @param {number[]} [only] the rows that are drawn; all without it */
  function matrixRows(block, only) {
    const step = Math.max(...block.pieces[0].map((piece) => piece.span));
    let heads = "";
    for (let col = 0; col < block.columns; col += step) heads += tag("th", col, "", step);
    const numbers = only || block.pieces.map((_, number) => number);
    const body = numbers.map((number) => tag("tr", tag("th", number) + block.pieces[number].map((piece) => tag("td", text(piece), classes(piece), piece.span)).join("")));
    return "<thead><tr><td></td>" + heads + "</tr></thead><tbody>" + body.join("") + "</tbody>";
  }

  /** @param {Block} block @param {Size} size @param {number[]} [only] the threads that are drawn */
  function laneRows(block, size, only) {
    const per = size.register / size.bits, count = size.elements / per;
    const used = only || holding(block);
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
  root.tcprobe = Object.assign(root.tcprobe || {}, { expand, blocks, matrixRows, laneRows, holding, rowsOf, colour, classes, texts: text });
})(globalThis);
