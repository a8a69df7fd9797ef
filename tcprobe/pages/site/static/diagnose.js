// @ts-check
"use strict";
/**
 * Somebody's table against a fragment's, as `tcprobe compare FILE.csv` does it: what is tried, in which order, and all
 * words are data of the page. Works without a page, too.
 */
(function (/** @type {typeof globalThis} */ root) {
  const NUMBER = /^-?[0-9]+$/, SHOWN = 60;

  /** A template of Python's format. @type {Tcprobe["filled"]} */
  const filled = (words, ...values) => { let at = 0; return words.replace(/\{\}/g, () => String(values[at++])); };
  const list = (/** @type {Point | undefined} */ cell) => (cell ? `[${cell.join(", ")}]` : "unused");
  /** @param {Point | undefined} a @param {Point | undefined} b */
  const same = (a, b) => a?.join() === b?.join();

  /** What has the same key, by key. @template T, K @param {T[]} every @param {(one: T) => K} key */
  function grouped(every, key) {
    const found = /** @type {Map<K, T[]>} */ (new Map());
    for (const one of every) {
      const place = key(one), before = found.get(place);
      if (before) before.push(one);
      else found.set(place, [one]);
    }
    return found;
  }

  /** The beginning of a text in quotes, with what cannot be printed spelt out. @param {string} text */
  function quoted(text) {
    const spelt = (/** @type {string} */ one) => { const code = one.charCodeAt(0); return new Map([[9, "\\t"], [10, "\\n"], [13, "\\r"]]).get(code) || (code < 256 ? "\\x" + code.toString(16).padStart(2, "0") : "\\u" + code.toString(16).padStart(4, "0")); };
    const shown = text.slice(0, SHOWN + 1).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, spelt);
    return `'${shown.length > SHOWN ? shown.slice(0, SHOWN - 3) + "..." : shown}'`;
  }

  // ---- a table from text

  /** Lines that are not blank with their numbers, as Python's csv reads them. @param {string} text @param {CsvRules} rules */
  function lines(text, rules) {
    const raw = text.replace(/^\ufeff/, "").replace(/\r\n?/g, "\n").split("\n").map((line) => (/^\s*#/.test(line) ? "" : line));
    if (raw.length > rules.most.lines) throw new Error(filled(rules.words["lines"], raw.length, rules.most.lines));
    const first = raw.find((line) => line.trim()) || "", mark = Array.from(rules.delimiters).find((one) => first.includes(one)) || ",";
    const found = /** @type {Row[]} */ ([]);
    for (let at = 0; at < raw.length; at++) {
      let line = raw[at], cells = split(line, mark);
      while (cells === null && at + 1 < raw.length) { line += "\n" + raw[++at]; cells = split(line, mark); } // a quoted line end
      if (cells === null) throw new Error(`line ${at + 1}: ` + filled(rules.words["not csv"], "unexpected end of data"));
      if (typeof cells === "string") throw new Error(`line ${at + 1}: ` + filled(rules.words["not csv"], cells));
      if (cells.some((cell) => cell.trim())) found.push([at + 1, cells]);
    }
    return found;
  }

  /** The cells of a line, null where a quote is open, or what is wrong. @param {string} line @param {string} mark */
  function split(line, mark) {
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

  /** The table that a text states; an Error with words where it is none. @type {Tcprobe["readCsv"]} */
  function readCsv(text, rules) {
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

  /** The lines with i in place of the register: its lines are its elements, low bits first. @param {string[]} names @param {Row[]} body @param {CsvRules["words"]} words @returns {Row[]} */
  function numbered(names, body, words) {
    const at = names.indexOf("register"), thread = names.indexOf("lane"), places = /** @type {Map<string, number>} */ (new Map()), seen = /** @type {typeof places} */ (new Map());
    const key = (/** @type {string[]} */ cells) => JSON.stringify([cells[thread], cells[at]]);
    for (const [, cells] of body) if (cells.length === names.length) places.set(key(cells), (places.get(key(cells)) || 0) + 1);
    const size = Math.max(1, ...new Set(places.values()));
    for (const [place, count] of places) {
      const [lane, register] = JSON.parse(place);
      if (count !== size) throw new Error(filled(words["uneven"], quoted(lane), quoted(register), count, size));
    }
    return body.map(([number, cells]) => {
      if (cells.length !== names.length || !NUMBER.test(cells[at]) || cells[at].length >= 9) return [number, cells];
      const before = seen.get(key(cells)) || 0;
      seen.set(key(cells), before + 1);
      return [number, cells.with(at, String(Number(cells[at]) * size + before))];
    });
  }

  /** @param {number} number @param {string[]} line @param {string[]} names @param {CsvRules} rules */
  function numbers(number, line, names, { words, most }) {
    const wrong = line.length !== names.length ? filled(words["values"], line.length, names.length, names.join())
      : !line.every((cell) => NUMBER.test(cell)) ? filled(words["numbers"], quoted(line.join()))
        : line.some((cell) => cell.startsWith("-") || cell.length > 9 || Number(cell) >= most.index) ? filled(words["outside"], most.index - 1) : "";
    if (wrong) throw new Error(`line ${number}: ${wrong}`);
    return line.map(Number);
  }

  /** @param {Given} cells @param {string[]} outputs @param {CsvRules} rules @returns {Stated} */
  function table(cells, outputs, { words, most }) {
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

  /** What each slot holds, of these outputs; unused ones left out. @param {Stated} stated @param {string[]} wanted @returns {Given} */
  function given({ cells, elements, outputs }, wanted) {
    const places = wanted.map((name) => outputs.indexOf(name)), found = /** @type {Given} */ (new Map());
    cells.forEach((cell, slot) => { if (cell) found.set(Math.floor(slot / elements) + "," + (slot % elements), places.map((place) => cell[place])); });
    return found;
  }

  /** By slots, as pairs of numbers. @param {Given} cells @returns {Filled[]} */
  const slotsOf = (cells) => Array.from(cells, ([key, cell]) => { const [lane, i] = key.split(",").map(Number); return [lane, i, cell]; });

  /** A change that makes all of it the fragment's table, in words. @param {Stated} stated @param {Held} fragment @param {Stated} measured @param {Rules} rules */
  function diagnose(stated, fragment, measured, rules) {
    if (!stated.outputs.includes("row") || !stated.outputs.includes("col") || !stated.outputs.every((name) => measured.outputs.includes(name))) return [];
    const cells = slotsOf(given(stated, stated.outputs)), truth = given(measured, stated.outputs);
    if (!cells.length) return [];
    const changes = rules.slots.flatMap((slot) => [false, true].flatMap((turned) => rules.cells.map((cell) => ({ slot, turned, cell }))));
    for (const orders of [asTheyAre, reordered]) {
      for (const { slot: [lane, i], turned, cell: [row, col] } of changes) {
        if (!cells.every(([, , cell]) => cell[0] >= row && cell[1] >= col)) continue;
        const moved = cells.map(([a, b, [first, second, ...rest]]) => /** @type {Filled} */ ([a - lane, b - i, turned ? [second - col, first - row, ...rest] : [first - row, second - col, ...rest]]));
        const found = orders(moved, truth, measured);
        if (!found) continue;
        const named = [turned ? rules.words["transposed"] : "", fromOne({ row, col }, rules)].filter(Boolean).join("; ");
        return [fromOne({ lane, i }, rules), named, ...inWords(found, fragment, measured, rules)].filter(Boolean);
      }
    }
    return [];
  }

  /** @param {Record<string, number>} starts @param {Rules} rules */
  function fromOne(starts, { words }) {
    const named = Object.keys(starts).filter((name) => starts[name]).map((name) => words[name]).join(" and ");
    return named && filled(words["from 1"], named);
  }

  /** @param {number[]} of @returns {Order} */
  const identity = (of) => new Map(of.map((number) => [number, number]));
  /** @param {Filled[]} cells @param {Given} truth @param {Orders} orders */
  const fits = (cells, truth, [lanes, elements]) => cells.every(([lane, i, cell]) => same(truth.get(lanes.get(lane) + "," + elements.get(i)), cell));

  /** @param {Filled[]} cells @param {Given} truth @returns {Orders | null} */
  function asTheyAre(cells, truth) {
    const orders = /** @type {Orders} */ ([identity(cells.map(([lane]) => lane)), identity(cells.map(([, i]) => i))]);
    return fits(cells, truth, orders) ? orders : null;
  }

  /** Which lanes and which elements are meant, one of the two reordered or both. @param {Filled[]} cells @param {Given} truth @param {Stated} measured @returns {Orders | null} */
  function reordered(cells, truth, measured) {
    const lanes = identity(cells.map(([lane]) => lane)), elements = identity(cells.map(([, i]) => i));
    for (const which of [() => lanes, () => matched(cells, truth, 0, measured.threads), () => byContents(cells, truth)]) {
      const others = which();
      if (!others) continue;
      if (fits(cells, truth, [others, elements])) return [others, elements];
      const other = matched(cells.map(([lane, i, cell]) => [others.get(lane) ?? -1, i, cell]), truth, 1, measured.elements);
      if (other && fits(cells, truth, [others, other])) return [others, other];
    }
    return null;
  }

  /** The lanes (`which` 0) or elements (1) that hold what the stated ones do, slot by slot. @param {Filled[]} cells @param {Given} truth @param {0 | 1} which @param {number} size */
  function matched(cells, truth, which, size) {
    const lines = grouped(cells, (slot) => slot[which]);
    /** @param {number} number @param {Filled[]} line */
    const holds = (number, line) => line.every(([lane, i, cell]) => same(truth.get(which ? lane + "," + number : number + "," + i), cell));
    if (lines.size > size) return null;
    const every = Array.from({ length: size }, (_, number) => number);
    return distinct(new Map(Array.from(lines, ([number, line]) => [number, [number, ...every].filter((other) => other < size && holds(other, line))])));
  }

  /** Lanes that hold the same elements, in whatever order. @param {Filled[]} cells @param {Given} truth */
  function byContents(cells, truth) {
    const contents = (/** @type {Filled[]} */ slots) => Array.from(grouped(slots, ([lane]) => lane), ([lane, held]) => ({ lane, held: new Set(held.map(([, , cell]) => cell.join())) }));
    const ours = contents(slotsOf(truth)), theirs = contents(cells);
    if (theirs.length > ours.length) return null;
    return distinct(new Map(theirs.map(({ lane, held }) => [lane, ours.filter((other) => Array.from(held).every((cell) => other.held.has(cell))).map((other) => other.lane)])));
  }

  /** Another partner for each, by augmenting paths; null where there are not enough. @param {Map<number, number[]>} choices @returns {Order | null} */
  function distinct(choices) {
    const taken = /** @type {Order} */ (new Map());
    /** @param {number} number @param {Set<number>} seen @returns {boolean} */
    const find = (number, seen) => (choices.get(number) || []).some((partner) => {
      if (seen.has(partner)) return false;
      seen.add(partner);
      const other = taken.get(partner);
      if (other !== undefined && !find(other, seen)) return false;
      taken.set(partner, number);
      return true;
    });
    for (const number of choices.keys()) if (!find(number, new Set())) return null;
    return new Map(Array.from(taken, ([partner, number]) => [number, partner]));
  }

  /** @param {Orders} orders @param {Held} fragment @param {Stated} measured @param {Rules} rules */
  function inWords([lanes, elements], fragment, measured, rules) {
    const moved = (/** @type {Order} */ order) => Array.from(order).some(([from, to]) => from !== to);
    return [...(moved(lanes) ? [laneWords(lanes, measured.threads, rules)] : []), ...(moved(elements) ? [elementWords(elements, fragment, rules)] : [])];
  }

  /** Bits of the lane that are exchanged or flipped, where that is all; else the order. @param {Order} lanes @param {number} threads @param {Rules} rules */
  function laneWords(lanes, threads, rules) {
    const bits = Math.round(Math.log2(threads)), base = lanes.get(0) || 0, { words } = rules;
    const images = Array.from({ length: bits }, (_, bit) => { const to = lanes.get(1 << bit); return (to === undefined ? base ^ (1 << bit) : to) ^ base; });
    const image = (/** @type {number} */ lane) => images.reduce((place, one, bit) => ((lane >> bit) & 1 ? place ^ one : place), 0);
    const linear = Array.from(lanes).every(([lane, to]) => (image(lane) ^ base) === to);
    const whole = images.slice().sort((a, b) => a - b).every((one, bit) => one === 1 << bit);
    if (!linear || !whole) return filled(words["lanes"], some(lanes, rules));
    const moved = images.map((one, bit) => [bit, Math.round(Math.log2(one))]).filter(([bit, to]) => bit !== to);
    const told = moved.length > 2 ? [filled(words["bit order"], moved.map((pair) => filled(words["bit"], ...pair)).join(", "))]
      : moved.length ? [filled(words["bits"], moved.map(([bit]) => bit).join(" and "))] : [];
    return [...told, ...(base ? [filled(words["xor"], base)] : [])].join("; ");
  }

  /** Registers exchanged as a whole, the elements inside each reversed, or the order. @param {Order} elements @param {Held} fragment @param {Rules} rules */
  function elementWords(elements, fragment, rules) {
    const size = Math.max(1, Math.floor(fragment.register / fragment.bits)), { words } = rules, part = (/** @type {number} */ i) => Math.floor(i / size);
    const registers = new Map(Array.from(elements, ([i, to]) => [part(i), part(to)])), all = Array.from(elements);
    if (all.every(([i, to]) => registers.get(part(i)) === part(to) && i % size === to % size)) {
      const moved = Array.from(registers).filter(([from, to]) => from !== to).sort(([a], [b]) => a - b);
      return moved.length === 2 ? filled(words["registers"], ...moved[0]) : filled(words["register order"], some(new Map(moved), rules));
    }
    if (size > 1 && all.every(([i, to]) => to === part(i) * size + size - 1 - (i % size))) return words["halves"];
    return filled(words["elements"], some(elements, rules));
  }

  /** @param {Order} order @param {Rules} rules */
  function some(order, { words, most }) {
    const moved = Array.from(order).sort(([a], [b]) => a - b).filter(([from, to]) => from !== to).map((pair) => filled(words["moved"], ...pair));
    return filled(words["order"], moved.slice(0, most).join(", ")) + (moved.length > most ? filled(words["more"], moved.length - most) : "");
  }

  /** Which slots that the fragment uses are not stated, lane by lane where they differ. @param {Stated} stated @param {Stated} measured @param {Rules} rules */
  function holes(stated, measured, { words }) {
    const known = given(stated, stated.outputs), missing = slotsOf(given(measured, measured.outputs)).filter(([lane, i]) => !known.has(lane + "," + i));
    const whole = (/** @type {Filled[]} */ slots) => (slots.length === measured.elements ? "" : filled(words["hole"], spans(slots.map(([, i]) => i))));
    const byLane = Array.from(grouped(missing, ([lane]) => lane), ([lane, slots]) => ({ lane, which: whole(slots) }));
    return Array.from(grouped(byLane, ({ which }) => which), ([which, lanes]) => filled(words["holes"], measured.threads <= 32 ? "lanes" : "threads", spans(lanes.map(({ lane }) => lane))) + which);
  }

  /** Ascending numbers with what follows on each other joined: 0..3, 7. @param {number[]} numbers */
  function spans(numbers) {
    const ends = /** @type {[number, number][]} */ ([]);
    for (const number of numbers) {
      const last = ends[ends.length - 1];
      if (last && last[1] === number - 1) last[1] = number;
      else ends.push([number, number]);
    }
    return ends.map(([a, b]) => (a === b ? a : a + ".." + b)).join(", ");
  }

  /** Of how many slots how many agree, and the first that do not; an Error where shapes differ. @type {Tcprobe["sameSlots"]} */
  function sameSlots(stated, measured, { words, first }) {
    if (!stated.outputs.every((name) => measured.outputs.includes(name))) throw new Error(filled(words["outputs"], stated.outputs.join(", "), measured.outputs.join(", ")));
    if (stated.threads > measured.threads || stated.elements > measured.elements) {
      throw new Error(filled(words["size"], stated.threads, stated.elements, measured.threads, measured.elements));
    }
    const truth = given(measured, stated.outputs), slots = slotsOf(given(stated, stated.outputs));
    const name = (/** @type {number} */ lane) => (measured.threads <= 32 ? `lane ${lane}` : `thread ${lane} (warp ${lane >> 5}, lane ${lane & 31})`);
    const wrong = slots.filter(([lane, i, cell]) => !same(truth.get(lane + "," + i), cell));
    const shown = wrong.slice(0, first).map(([lane, i, cell]) => filled(words["differs"], `${name(lane)} i ${i}`, list(cell), list(truth.get(lane + "," + i))));
    return { agreed: slots.length - wrong.length, given: slots.length, first: shown, wrong: wrong.map(([lane, i]) => [lane, i]) };
  }

  /** Whether the tables differ only by a renumbering of rows and of columns. @param {Stated} stated @param {Stated} measured */
  function renumbered(stated, measured) {
    if (stated.threads !== measured.threads || stated.elements !== measured.elements || stated.outputs.join() !== measured.outputs.join()) return false;
    return stated.outputs.every((_, at) => {
      const pairs = new Set(stated.cells.map((cell, slot) => { const other = measured.cells[slot]; return (cell ? cell[at] : "-") + "," + (other ? other[at] : "-"); }));
      return [0, 1].every((side) => new Set(Array.from(pairs, (pair) => pair.split(",")[side])).size === pairs.size);
    });
  }

  /**
   * Somebody's table against a fragment's. `elsewhere` are the fragments whose table it is: they count where it differs.
   * An Error where shapes differ, and nothing explains that.
   * @type {Tcprobe["against"]}
   */
  function against(stated, fragment, measured, rules, elsewhere) {
    const diagnosis = diagnose(stated, fragment, measured, rules), slots = stated.cells.filter(Boolean).length;
    let found = /** @type {Agreed} */ ({ agreed: 0, given: slots, first: [], wrong: [] });
    try {
      found = sameSlots(stated, measured, rules);
    } catch (error) {
      if (!diagnosis.length && !elsewhere.length) throw error;
      found.first = [error instanceof Error ? error.message : String(error)];
    }
    const { agreed, given: count, first } = found;
    return { agreed, given: count, first, notStated: Math.max(0, measured.threads * measured.elements - count), diagnosis,
      renumbered: first.length > 0 && fragment.conventional && renumbered(stated, measured),
      elsewhere: first.length ? elsewhere : [], holes: holes(stated, measured, rules) };
  }

  root.tcprobe = Object.assign(root.tcprobe || {}, { readCsv, against, sameSlots, filled });
})(globalThis);
