// @ts-check
"use strict";
/** Maps: from GF(2) bases to tables, and tables as rows of HTML. Works without a page, too. */
(function (/** @type {typeof globalThis} */ root) {
  const WIDE = 64;

  /** What every point gives, as one list. @type {Tcprobe["expand"]} */
  function expand(layout) {
    const points = layout.in.reduce((total, axis) => total * axis[1], 1), found = /** @type {Point[]} */ ([]);
    for (let number = 0; number < points; number++) found.push("values" in layout ? listed(layout, number) : linear(layout, number));
    for (const [first, count] of layout.unused || []) found.fill(null, first, first + count);
    return found;
  }

  /** @param {Listed} layout @param {number} number */
  function listed(layout, number) {
    const value = layout.values.map((column) => column[number]).filter((part) => part !== null);
    return value.length ? value : null;
  }

  /** The XOR of the images of the bits set in the inputs. @param {Linear} layout @param {number} number */
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

  /** The layout of one N: as many elements of the largest as that N has. @type {Tcprobe["sized"]} */
  const sized = (layout, elements) => (elements ? { ...layout, in: layout.in.map(([name, count]) => [name, name === "i" ? elements : count]) } : layout);

  /** One matrix for each product of a warp, and for each value of an input before thread and i. @type {Tcprobe["blocks"]} */
  function blocks(layout, size) {
    const cells = expand(layout), per = size.threads * size.elements, lead = layout.in.slice(0, -2), found = [];
    const [row, col, product] = ["row", "col", "product"].map((name) => layout.out.indexOf(name));
    const products = product < 0 ? 1 : 1 + Math.max(...cells.map((cell) => (cell ? cell[product] : 0)));
    for (let first = 0; first < cells.length; first += per) {
      for (let which = 0; which < products; which++) {
        const block = /** @type {Block} */ ({ title: title(lead, first / per, product < 0 ? null : which), holders: new Map(), slots: new Map(),
          flat: col < 0, columns: col < 0 ? 1 : size.cols, pieces: [], lanes: [] });
        for (let slot = 0; slot < per; slot++) {
          const cell = cells[first + slot];
          if (cell && (product < 0 || cell[product] === which)) put(block, size, slot, [cell[row], col < 0 ? 0 : cell[col]]);
        }
        block.pieces = Array.from({ length: size.rows }, (_, row) => pieces(block, size, row));
        found.push(block);
      }
    }
    return found;
  }

  /** @param {Layout["in"]} lead @param {number} number @param {number | null} product */
  function title(lead, number, product) {
    const words = /** @type {string[]} */ ([]);
    for (const [name, size] of lead.slice().reverse()) {
      words.unshift(name + " " + (number % size));
      number = Math.floor(number / size);
    }
    return words.concat(product === null ? [] : ["product " + product]).join(", ");
  }

  /** @param {Block} block @param {Size} size @param {number} slot @param {At} at */
  function put(block, size, slot, at) {
    const i = slot % size.elements, thread = (slot - i) / size.elements, holders = block.holders.get(String(at)) || [];
    block.slots.set(thread + "," + i, at);
    holders.push([thread, i]);
    block.holders.set(String(at), holders);
  }

  /** @param {Block} block @param {Size} size @param {number} row */
  function pieces(block, size, row) {
    const found = /** @type {Piece[]} */ ([]), per = block.columns >= WIDE ? size.register / size.bits : 1;
    for (let col = 0; col < block.columns; col++) {
      const holders = block.holders.get(row + "," + col) || [], last = found[found.length - 1];
      if (last && goesOn(last, holders, per)) last.span++;
      else found.push({ col, span: 1, holders });
    }
    return found;
  }

  /** @param {Piece} last @param {Slot[]} holders @param {number} per */
  function goesOn(last, holders, per) {
    return holders.length === last.holders.length && holders.every(([thread, i], at) =>
      thread === last.holders[at][0] && i === last.holders[at][1] + last.span && i % per !== 0);
  }

  /** @type {Tcprobe["texts"]} */
  function texts(piece) {
    const threads = /** @type {Map<number, string>} */ (new Map());
    for (const [thread, i] of piece.holders) {
      const before = threads.get(thread);
      threads.set(thread, (before ? before + "," : thread + ":") + (piece.span === 1 ? i : i + ".." + (i + piece.span - 1)));
    }
    return Array.from(threads.values()).join(" ");
  }

  /** @param {(At | null)[]} elements @param {boolean} flat */
  function words(elements, flat) {
    if (flat) return elements.map((element) => (element ? element[0] : "-")).join(", ");
    const runs = /** @type {(At | null)[][]} */ ([]);
    for (const element of elements) {
      const run = runs[runs.length - 1];
      if (run && follows(run, element)) run.push(element);
      else runs.push([element]);
    }
    return runs.map(([first, ...rest]) => {
      const last = rest[rest.length - 1];
      return first ? first.map((from, at) => (last && last[at] !== from ? from + ".." + last[at] : from)).join() : "-";
    }).join(" ");
  }

  /** @param {(At | null)[]} run @param {At | null} element */
  function follows(run, element) {
    const last = run[run.length - 1];
    if (!last || !element) return false;
    const step = [element[0] - last[0], element[1] - last[1]].join(), before = run[run.length - 2];
    return (step === "0,1" || step === "1,0") && (!before || step === [last[0] - before[0], last[1] - before[1]].join());
  }

  /** The threads that hold anything. @type {Tcprobe["holding"]} */
  const holding = (block) => Array.from(new Set(Array.from(block.slots.keys(), (key) => parseInt(key, 10)))).sort((a, b) => a - b);

  /** The rows of which a warp holds anything. @type {Tcprobe["rowsOf"]} */
  function rowsOf(block, warp) {
    const rows = /** @type {Set<number>} */ (new Set());
    for (const [key, [row]] of block.slots) if (parseInt(key, 10) >> 5 === warp) rows.add(row);
    return Array.from(rows).sort((a, b) => a - b);
  }

  /** @type {Tcprobe["colour"]} */
  const colour = (thread) => (thread & 3) + 4 * ((thread >> 2) & 1);

  /** The colours of the first two threads. @type {Tcprobe["classes"]} */
  function classes(threads) {
    const other = threads.find((thread) => thread !== threads[0]);
    return threads.length ? "c" + colour(threads[0]) + (other === undefined ? "" : " d" + colour(other)) : "";
  }

  /** Tables, made of numbers only. @param {string} name @param {string | number} content */
  const tag = (name, content, of = "", span = 1) => "<" + name + (of ? ' class="' + of + '"' : "") + (span > 1 ? " colspan=" + span : "") + ">" + content + "</" + name + ">";

  /** With some rows only, or all. @type {Tcprobe["matrixRows"]} */
  function matrixRows(block, only) {
    const step = Math.max(...block.pieces[0].map((piece) => piece.span));
    let heads = "";
    for (let col = 0; col < block.columns; col += step) heads += tag("th", col, "", step);
    const numbers = only || block.pieces.map((_, number) => number);
    const body = numbers.map((number) => tag("tr", tag("th", number) + block.pieces[number].map((piece) => tag("td", texts(piece), classes(piece.holders.map(([thread]) => thread)), piece.span)).join("")));
    return "<thead><tr><td></td>" + heads + "</tr></thead><tbody>" + body.join("") + "</tbody>";
  }

  /** With some threads only, or all that hold anything. @type {Tcprobe["laneRows"]} */
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
  root.tcprobe = Object.assign(root.tcprobe || {}, { expand, sized, blocks, matrixRows, laneRows, holding, rowsOf, colour, classes, texts });
})(globalThis);
