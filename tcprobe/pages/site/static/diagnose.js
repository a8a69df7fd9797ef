// @ts-check
"use strict";
/**
 * Somebody's table against a fragment's, as `tcprobe compare FILE.csv` does it: what is tried, in which order, and all
 * words are data of the page. Works without a page, too.
 * @typedef {{inputs: string[], outputs: string[], also: Record<string, string>, delimiters: string,
 *   most: {bytes: number, lines: number, index: number, slots: number}, words: Record<string, string>}} CsvRules
 * @typedef {{slots: [number, number][], cells: [number, number][], most: number, first: number,
 *   words: Record<string, string>}} Rules
 * @typedef {{threads: number, elements: number, outputs: string[], cells: (number[] | null)[]}} Stated a slot's number
 *   is thread * elements + i
 * @typedef {{bits: number, register: number, conventional: boolean}} Held what is asked of a fragment
 * @typedef {{agreed: number, given: number, notStated: number, first: string[], renumbered: boolean,
 *   diagnosis: string[], elsewhere: string[], holes: string[]}} Against
 * @typedef {Map<number, number>} Order
 * @typedef {[Order, Order]} Orders of lanes, of elements
 * @typedef {Map<string, number[]>} Given by "thread,i"
 */
(function (/** @type {typeof globalThis} */ root) {
  const NUMBER = /^-?[0-9]+$/, SHOWN = 60;

  /** A template of Python's format. @param {string} words @param {...unknown} values */
  const filled = (words, ...values) => { let at = 0; return words.replace(/\{\}/g, () => String(values[at++])); };
  const list = (/** @type {number[] | null} */ cell) => (cell ? `[${cell.join(", ")}]` : "unused");
  const same = (/** @type {number[] | null | undefined} */ a, /** @type {number[] | null | undefined} */ b) => (a ? a.join() : a) === (b ? b.join() : b);

  /** The beginning of a text in quotes, with what cannot be printed spelt out. */
  function quoted(/** @type {string} */ text) {
    const spelt = (/** @type {string} */ one) => { const code = one.charCodeAt(0); return { 9: "\\t", 10: "\\n", 13: "\\r" }[code] || (code < 256 ? "\\x" + code.toString(16).padStart(2, "0") : "\\u" + code.toString(16).padStart(4, "0")); };
    const shown = text.slice(0, SHOWN + 1).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, spelt);
    return `'${shown.length > SHOWN ? shown.slice(0, SHOWN - 3) + "..." : shown}'`;
  }

  // ---- a table from text

  /** Lines that are not blank with their numbers, as Python's csv reads them. */
  function lines(/** @type {string} */ text, /** @type {CsvRules} */ rules) {
    const raw = text.replace(/^\ufeff/, "").replace(/\r\n?/g, "\n").split("\n").map((line) => (/^\s*#/.test(line) ? "" : line));
    if (raw.length > rules.most.lines) throw new Error(filled(rules.words["lines"], raw.length, rules.most.lines));
    const first = raw.find((line) => line.trim()) || "", mark = Array.from(rules.delimiters).find((one) => first.includes(one)) || ",";
    const found = /** @type {[number, string[]][]} */ ([]);
    for (let at = 0; at < raw.length; at++) {
      let line = raw[at], cells = split(line, mark);
      while (cells === null && at + 1 < raw.length) { line += "\n" + raw[++at]; cells = split(line, mark); } // a quoted line end
      if (cells === null) throw new Error(`line ${at + 1}: ` + filled(rules.words["not csv"], "unexpected end of data"));
      if (typeof cells === "string") throw new Error(`line ${at + 1}: ` + filled(rules.words["not csv"], cells));
      if (cells.some((cell) => cell.trim())) found.push([at + 1, cells]);
    }
    return found;
  }

  /** The cells of a line, null where a quote is open, or what is wrong. @returns {string[] | null | string} */
  function split(/** @type {string} */ line, /** @type {string} */ mark) {
    if (!line.includes('"')) return line.split(mark);
    const cells = [];
    for (let at = 0; ;) {
      let cell = "";
      if (line[at] === '"') {
        for (at++; line[at] !== '"' || line[at + 1] === '"'; at++) {
          if (at >= line.length) return null;
          if (line[at] === '"') at++;
          cell += line[at];
        }
        if (++at < line.length && line[at] !== mark) return `'${mark}' expected after '"'`;
      } else while (at < line.length && line[at] !== mark) cell += line[at++];
      cells.push(cell);
      if (at++ >= line.length) return cells;
    }
  }

  /** The table that a text states; an Error with words where it is none. @returns {Stated} */
  function readCsv(/** @type {string} */ text, /** @type {CsvRules} */ rules) {
    const words = rules.words, all = lines(text, rules);
    if (!all.length) throw new Error(words["empty"]);
    let names = all[0][1].map((cell) => cell.trim().toLowerCase()).map((cell) => (Object.hasOwn(rules.also, cell) ? rules.also[cell] : cell)), body = all.slice(1);
    if (names.some((name) => NUMBER.test(name))) names = [...rules.inputs, ...rules.outputs].slice(0, names.length), body = all;
    const known = names.map((name) => (name === "register" ? "i" : name)), needed = ["lane", "i", "row", "col"];
    const right = needed.every((name) => known.includes(name)) && known.every((name) => needed.includes(name) || name === "product") && new Set(known).size === known.length;
    if (!right || all[0][1].length !== names.length) throw new Error(`line ${all[0][0]}: ` + filled(words["columns"], names.length, quoted(names.join(", "))));
    if (!body.length) throw new Error(words["no slots"]);
    if (!names.includes("i")) body = numbered(names, body, words);
    const outputs = rules.outputs.filter((name) => known.includes(name)), cells = /** @type {Given} */ (new Map());
    for (const [number, line] of body) {
      const values = numbers(number, line, known, rules), at = (/** @type {string} */ name) => values[known.indexOf(name)], slot = at("lane") + "," + at("i");
      if (cells.has(slot)) throw new Error(`line ${number}: ` + filled(words["second"], at("lane"), at("i")));
      cells.set(slot, outputs.map(at));
    }
    return table(cells, outputs, rules);
  }

  /** The lines with i in place of the register: its lines are its elements, low bits first. */
  function numbered(/** @type {string[]} */ names, /** @type {[number, string[]][]} */ body, /** @type {Record<string, string>} */ words) {
    const at = names.indexOf("register"), thread = names.indexOf("lane"), places = new Map(), seen = new Map();
    const key = (/** @type {string[]} */ cells) => JSON.stringify([cells[thread], cells[at]]);
    for (const [, cells] of body) if (cells.length === names.length) places.set(key(cells), (places.get(key(cells)) || 0) + 1);
    const size = Math.max(1, ...new Set(places.values()));
    for (const [place, count] of places) {
      const [lane, register] = JSON.parse(place);
      if (count !== size) throw new Error(filled(words["uneven"], quoted(lane), quoted(register), count, size));
    }
    return body.map(([number, cells]) => {
      if (cells.length !== names.length || !NUMBER.test(cells[at]) || cells[at].length >= 9) return /** @type {[number, string[]]} */ ([number, cells]);
      const before = seen.get(key(cells)) || 0;
      seen.set(key(cells), before + 1);
      return /** @type {[number, string[]]} */ ([number, cells.with(at, String(Number(cells[at]) * size + before))]);
    });
  }

  function numbers(/** @type {number} */ number, /** @type {string[]} */ line, /** @type {string[]} */ names, /** @type {CsvRules} */ { words, most }) {
    const wrong = line.length !== names.length ? filled(words["values"], line.length, names.length, names.join())
      : !line.every((cell) => NUMBER.test(cell)) ? filled(words["numbers"], quoted(line.join()))
        : line.some((cell) => cell.startsWith("-") || cell.length > 9 || Number(cell) >= most.index) ? filled(words["outside"], most.index - 1) : "";
    if (wrong) throw new Error(`line ${number}: ${wrong}`);
    return line.map(Number);
  }

  /** @returns {Stated} */
  function table(/** @type {Given} */ cells, /** @type {string[]} */ outputs, /** @type {CsvRules} */ { words, most }) {
    let lane = 0, i = 0, threads = 1;
    for (const key of cells.keys()) {
      const [one, two] = key.split(",").map(Number);
      lane = Math.max(lane, one), i = Math.max(i, two);
    }
    while (threads <= lane) threads *= 2;
    const elements = i + 1;
    if (threads * elements > most.slots) throw new Error(filled(words["slots"], lane, i, threads, elements, most.slots));
    return { threads, elements, outputs, cells: Array.from({ length: threads * elements }, (_, slot) => cells.get(Math.floor(slot / elements) + "," + (slot % elements)) || null) };
  }

  // ---- what is wrong with it

  /** What each slot holds, of these outputs; unused ones left out. @returns {Given} */
  function given(/** @type {Stated} */ { cells, elements, outputs }, /** @type {string[]} */ wanted) {
    const places = wanted.map((name) => outputs.indexOf(name)), found = new Map();
    cells.forEach((cell, slot) => { if (cell) found.set(Math.floor(slot / elements) + "," + (slot % elements), places.map((place) => cell[place])); });
    return found;
  }

  /** By slots, as pairs of numbers. @returns {[number, number, number[]][]} */
  const slotsOf = (/** @type {Given} */ cells) => Array.from(cells, ([key, cell]) => { const [lane, i] = key.split(",").map(Number); return [lane, i, cell]; });

  /** A change that makes all of it the fragment's table, in words. @returns {string[]} */
  function diagnose(/** @type {Stated} */ stated, /** @type {Held} */ fragment, /** @type {Stated} */ measured, /** @type {Rules} */ rules) {
    if (!stated.outputs.includes("row") || !stated.outputs.includes("col") || !stated.outputs.every((name) => measured.outputs.includes(name))) return [];
    const cells = slotsOf(given(stated, stated.outputs)), truth = given(measured, stated.outputs);
    if (!cells.length) return [];
    const changes = rules.slots.flatMap((slot) => [false, true].flatMap((turned) => rules.cells.map((cell) => ({ slot, turned, cell }))));
    for (const orders of [asTheyAre, reordered]) {
      for (const { slot: [lane, i], turned, cell: [row, col] } of changes) {
        if (!cells.every(([, , cell]) => cell[0] >= row && cell[1] >= col)) continue;
        const moved = cells.map(([a, b, [first, second, ...rest]]) => /** @type {[number, number, number[]]} */ ([a - lane, b - i, turned ? [second - col, first - row, ...rest] : [first - row, second - col, ...rest]]));
        const found = orders(moved, truth, measured);
        if (!found) continue;
        const named = [turned ? rules.words["transposed"] : "", fromOne({ row, col }, rules)].filter(Boolean).join("; ");
        return [fromOne({ lane, i }, rules), named, ...inWords(found, fragment, measured, rules)].filter(Boolean);
      }
    }
    return [];
  }

  function fromOne(/** @type {Record<string, number>} */ starts, /** @type {Rules} */ { words }) {
    const named = Object.keys(starts).filter((name) => starts[name]).map((name) => words[name]).join(" and ");
    return named && filled(words["from 1"], named);
  }

  const identity = (/** @type {number[]} */ of) => /** @type {Order} */ (new Map(of.map((number) => [number, number])));
  const fits = (cells, truth, [lanes, elements]) => cells.every(([lane, i, cell]) => same(truth.get(lanes.get(lane) + "," + elements.get(i)), cell));

  /** @returns {Orders | null} */
  function asTheyAre(cells, truth) {
    const orders = /** @type {Orders} */ ([identity(cells.map(([lane]) => lane)), identity(cells.map(([, i]) => i))]);
    return fits(cells, truth, orders) ? orders : null;
  }

  /** Which lanes and which elements are meant, one of the two reordered or both. @returns {Orders | null} */
  function reordered(cells, truth, measured) {
    const lanes = identity(cells.map(([lane]) => lane)), elements = identity(cells.map(([, i]) => i));
    for (const which of [() => lanes, () => matched(cells, truth, 0, measured.threads), () => byContents(cells, truth)]) {
      const others = which();
      if (!others) continue;
      if (fits(cells, truth, [others, elements])) return [others, elements];
      const other = matched(cells.map(([lane, i, cell]) => [others.get(lane), i, cell]), truth, 1, measured.elements);
      if (other && fits(cells, truth, [others, other])) return [others, other];
    }
    return null;
  }

  /** The lanes (`which` 0) or elements (1) that hold what the stated ones do, slot by slot. */
  function matched(cells, truth, which, size) {
    const lines = new Map();
    for (const slot of cells) {
      if (!lines.has(slot[which])) lines.set(slot[which], []);
      lines.get(slot[which]).push([slot[1 - which], slot[2]]);
    }
    const holds = (number, line) => line.every(([at, cell]) => same(truth.get(which ? at + "," + number : number + "," + at), cell));
    if (lines.size > size) return null;
    const every = Array.from({ length: size }, (_, number) => number);
    return distinct(new Map(Array.from(lines, ([number, line]) => [number, [number, ...every].filter((other) => other < size && holds(other, line))])));
  }

  /** Lanes that hold the same elements, in whatever order. */
  function byContents(cells, truth) {
    const contents = (slots) => {
      const found = new Map();
      for (const [lane, , cell] of slots) found.has(lane) ? found.get(lane).push(cell.join()) : found.set(lane, [cell.join()]);
      return found;
    };
    const ours = Array.from(contents(slotsOf(truth)), ([lane, held]) => [lane, new Set(held)]);
    const theirs = contents(cells);
    if (theirs.size > ours.length) return null;
    return distinct(new Map(Array.from(theirs, ([lane, held]) => [lane, ours.filter(([, all]) => held.every((cell) => all.has(cell))).map(([other]) => other)])));
  }

  /** Another partner for each, by augmenting paths; null where there are not enough. @returns {Order | null} */
  function distinct(/** @type {Map<number, number[]>} */ choices) {
    const taken = new Map();
    const find = (number, seen) => (choices.get(number) || []).some((partner) => {
      if (seen.has(partner)) return false;
      seen.add(partner);
      if (taken.has(partner) && !find(taken.get(partner), seen)) return false;
      taken.set(partner, number);
      return true;
    });
    for (const number of choices.keys()) if (!find(number, new Set())) return null;
    return new Map(Array.from(taken, ([partner, number]) => [number, partner]));
  }

  function inWords([lanes, elements], fragment, measured, rules) {
    const moved = (order) => Array.from(order).some(([from, to]) => from !== to);
    return [...(moved(lanes) ? [laneWords(lanes, measured.threads, rules)] : []), ...(moved(elements) ? [elementWords(elements, fragment, rules)] : [])];
  }

  /** Bits of the lane that are exchanged or flipped, where that is all; else the order. */
  function laneWords(/** @type {Order} */ lanes, /** @type {number} */ threads, /** @type {Rules} */ rules) {
    const bits = Math.round(Math.log2(threads)), base = lanes.get(0) || 0, { words } = rules;
    const images = Array.from({ length: bits }, (_, bit) => { const to = lanes.get(1 << bit); return (to === undefined ? base ^ (1 << bit) : to) ^ base; });
    const image = (lane) => images.reduce((place, one, bit) => ((lane >> bit) & 1 ? place ^ one : place), 0);
    const linear = Array.from(lanes).every(([lane, to]) => (image(lane) ^ base) === to);
    const whole = images.slice().sort((a, b) => a - b).every((one, bit) => one === 1 << bit);
    if (!linear || !whole) return filled(words["lanes"], some(lanes, rules));
    const moved = images.map((one, bit) => [bit, Math.round(Math.log2(one))]).filter(([bit, to]) => bit !== to);
    const told = moved.length > 2 ? [filled(words["bit order"], moved.map((pair) => filled(words["bit"], ...pair)).join(", "))]
      : moved.length ? [filled(words["bits"], moved.map(([bit]) => bit).join(" and "))] : [];
    return [...told, ...(base ? [filled(words["xor"], base)] : [])].join("; ");
  }

  /** Registers exchanged as a whole, the elements inside each reversed, or the order. */
  function elementWords(/** @type {Order} */ elements, /** @type {Held} */ fragment, /** @type {Rules} */ rules) {
    const size = Math.max(1, Math.floor(fragment.register / fragment.bits)), { words } = rules, part = (i) => Math.floor(i / size);
    const registers = new Map(Array.from(elements, ([i, to]) => [part(i), part(to)])), all = Array.from(elements);
    if (all.every(([i, to]) => registers.get(part(i)) === part(to) && i % size === to % size)) {
      const moved = Array.from(registers).filter(([from, to]) => from !== to).sort(([a], [b]) => a - b);
      return moved.length === 2 ? filled(words["registers"], ...moved[0]) : filled(words["register order"], some(new Map(moved), rules));
    }
    if (size > 1 && all.every(([i, to]) => to === part(i) * size + size - 1 - (i % size))) return words["halves"];
    return filled(words["elements"], some(elements, rules));
  }

  function some(/** @type {Order} */ order, /** @type {Rules} */ { words, most }) {
    const moved = Array.from(order).sort(([a], [b]) => a - b).filter(([from, to]) => from !== to).map((pair) => filled(words["moved"], ...pair));
    return filled(words["order"], moved.slice(0, most).join(", ")) + (moved.length > most ? filled(words["more"], moved.length - most) : "");
  }

  /** Which slots that the fragment uses are not stated, lane by lane where they differ. @returns {string[]} */
  function holes(/** @type {Stated} */ stated, /** @type {Stated} */ measured, /** @type {Rules} */ { words }) {
    const known = given(stated, stated.outputs), byLane = new Map(), lanesOf = new Map();
    for (const [lane, i] of slotsOf(given(measured, measured.outputs))) {
      if (!known.has(lane + "," + i)) byLane.set(lane, [...(byLane.get(lane) || []), i]);
    }
    for (const [lane, missing] of byLane) {
      const which = missing.length === measured.elements ? "" : filled(words["hole"], spans(missing));
      lanesOf.set(which, [...(lanesOf.get(which) || []), lane]);
    }
    return Array.from(lanesOf, ([which, lanes]) => filled(words["holes"], measured.threads <= 32 ? "lanes" : "threads", spans(lanes)) + which);
  }

  /** Ascending numbers with what follows on each other joined: 0..3, 7. */
  function spans(/** @type {number[]} */ numbers) {
    const ends = /** @type {[number, number][]} */ ([]);
    for (const number of numbers) {
      const last = ends[ends.length - 1];
      if (last && last[1] === number - 1) last[1] = number;
      else ends.push([number, number]);
    }
    return ends.map(([a, b]) => (a === b ? a : a + ".." + b)).join(", ");
  }

  /** Of how many slots how many agree, and the first that do not; an Error where shapes differ. */
  function sameSlots(/** @type {Stated} */ stated, /** @type {Stated} */ measured, /** @type {Rules} */ { words, first }) {
    if (!stated.outputs.every((name) => measured.outputs.includes(name))) throw new Error(filled(words["outputs"], stated.outputs.join(", "), measured.outputs.join(", ")));
    if (stated.threads > measured.threads || stated.elements > measured.elements) {
      throw new Error(filled(words["size"], stated.threads, stated.elements, measured.threads, measured.elements));
    }
    const truth = given(measured, stated.outputs), slots = slotsOf(given(stated, stated.outputs));
    const name = (lane) => (measured.threads <= 32 ? `lane ${lane}` : `thread ${lane} (warp ${lane >> 5}, lane ${lane & 31})`);
    const wrong = slots.filter(([lane, i, cell]) => !same(truth.get(lane + "," + i), cell));
    const shown = wrong.slice(0, first).map(([lane, i, cell]) => filled(words["differs"], `${name(lane)} i ${i}`, list(cell), list(truth.get(lane + "," + i) || null)));
    return { agreed: slots.length - wrong.length, given: slots.length, first: shown, wrong: wrong.map(([lane, i]) => [lane, i]) };
  }

  /** Whether the tables differ only by a renumbering of rows and of columns. */
  function renumbered(/** @type {Stated} */ stated, /** @type {Stated} */ measured) {
    if (stated.threads !== measured.threads || stated.elements !== measured.elements || stated.outputs.join() !== measured.outputs.join()) return false;
    return stated.outputs.every((_, at) => {
      const pairs = new Set(stated.cells.map((cell, slot) => { const other = measured.cells[slot]; return (cell ? cell[at] : "-") + "," + (other ? other[at] : "-"); }));
      return [0, 1].every((side) => new Set(Array.from(pairs, (pair) => pair.split(",")[side])).size === pairs.size);
    });
  }

  /**
   * Somebody's table against a fragment's. `elsewhere` are the fragments whose table it is: they count where it differs.
   * An Error where shapes differ, and nothing explains that.
   * @param {Stated} stated @param {Held} fragment @param {Stated} measured @param {Rules} rules @param {string[]} elsewhere
   * @returns {Against}
   */
  function against(stated, fragment, measured, rules, elsewhere) {
    const diagnosis = diagnose(stated, fragment, measured, rules), slots = stated.cells.filter(Boolean).length;
    let found = { agreed: 0, given: slots, first: /** @type {string[]} */ ([]) };
    try {
      found = sameSlots(stated, measured, rules);
    } catch (error) {
      if (!diagnosis.length && !elsewhere.length) throw error;
      found.first = [/** @type {Error} */ (error).message];
    }
    const { agreed, given: count, first } = found;
    return { agreed, given: count, first, notStated: Math.max(0, measured.threads * measured.elements - count), diagnosis,
      renumbered: first.length > 0 && fragment.conventional && renumbered(stated, measured),
      elsewhere: first.length ? elsewhere : [], holes: holes(stated, measured, rules) };
  }

  root.tcprobe = Object.assign(root.tcprobe || {}, { readCsv, against, sameSlots, filled });
})(globalThis);
