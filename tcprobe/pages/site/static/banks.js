// @ts-check
"use strict";
/** The playground for shared memory: what an access of a tile costs, by the published rule, which the page has as data. */
(function (/** @type {typeof globalThis} */ root) {
  const BANKS = 32, WORD = 4, WARP = 32, SHARED = 228 * 1024, PADDING = 1 << 16, MOST = 20, START = 128;
  const SIDE = 1e6, BANK_BITS = 7, ENGINE = /^(wgmma|tcgen05|tma\b|cp\.async\.bulk)/i; // reads and writes by no lane's address

  /** @param {string} words @returns {never} */
  const refuse = (words) => { throw new Error(words); };
  /** @param {string | null} text */
  const whole = (text, least = 0, most = SIDE) => {
    if (text === null || !/^-?\d{1,7}$/.test(text) || Number(text) < least || Number(text) > most) refuse(`${String(text).slice(0, 20)} is not a number from ${least} to ${most}`);
    return Number(text);
  };

  /** What the address says; an Error says what is wrong. @type {Tcprobe["banks"]["parse"]} */
  function parse(given, data) {
    const sides = /^(\d{1,6})x(\d{1,6})$/.exec(given.get("tile") || "64x64");
    if (!sides) refuse("tile is ROWSxCOLS such as 64x64");
    const [rows, cols] = [whole(sides[1], 1), whole(sides[2], 1)], type = given.get("type") || "f16";
    if (!Object.hasOwn(data.types, type)) refuse(`unknown element type ${type.slice(0, 20)}`);
    const bits = data.types[type], column = given.get("global") === "col", length = column ? rows : cols;
    if ((length * bits) % 8) refuse(`a line of ${length} elements of ${bits} bits is not whole bytes`);
    const bytes = (length * bits) / 8, line = given.has("line") ? whole(given.get("line"), 1) : bytes;
    const tile = { rows, cols, bits, column, padding: 0, swizzle: [0, 4, 3], block: 0, access: named(given.get("access") || "ldmatrix") };
    const how = given.get("swizzle") || "none", mode = /^(?:SWIZZLE_)?(32|64|128)B$/i.exec(how);
    if (mode) {
      tile.block = Number(mode[1]);
      tile.swizzle = [Math.log2(tile.block) - 4, 4, 3];
    } else if (how !== "none") {
      tile.swizzle = how.split(",").map((part) => whole(part, -MOST, MOST));
      const [b, m, s] = tile.swizzle;
      if (tile.swizzle.length !== 3 || b < 0 || m < 0 || Math.abs(s) < b) refuse(`${how.slice(0, 20)} is not a swizzle: B and M are at least 0, and |S| at least B`);
    }
    if (line < bytes) refuse(`lines of ${bytes} bytes cannot be ${line} bytes apart`);
    tile.padding = line - bytes;
    if (tile.padding > PADDING) refuse(`at most ${PADDING} bytes of padding`);
    if (tile.padding && (tile.swizzle[0] || tile.block)) refuse("padding or a swizzle, not both: a swizzle wants lines side by side");
    return tile;
  }

  /** The access by the name that the rule has. @param {string} text */
  function named(text) {
    const [name, order] = text.split("@"), vector = /^(ld|st)\.shared\.v([24])(?:\.[bsuf](8|16|32|64))?$/.exec(name);
    const full = vector ? `${vector[1]}.shared.b${Number(vector[2]) * Number(vector[3] || 32)}` : /^(ld|st)matrix$/.test(name) ? name + ".x4" : name;
    return order === undefined ? full : full + "@" + order;
  }

  /** @param {number} offset @param {number[]} swizzle */
  function swizzled(offset, [b, m, s]) {
    if (!b) return offset;
    const read = Math.floor(offset / 2 ** (m + Math.max(0, s))) % 2 ** b;
    const to = 2 ** (m - Math.min(0, s)), there = Math.floor(offset / to) % 2 ** b;
    return offset + ((there ^ read) - there) * to;
  }

  /** Line and byte of every lane of every instruction: lane after lane along a line, or a line for each lane. @param {Tile} tile @param {BanksData} data @returns {Walk} */
  function walk(tile, data) {
    const [name, order] = tile.access.split("@"), copy = /^cp\.async\.(?:ca\.|cg\.)?(4|8|16)$/.exec(name);
    if (ENGINE.test(name)) refuse(`how ${name.slice(0, 40)} meets in banks is not measured, so there is no rule of it`);
    if (order !== undefined && order !== "rows" && order !== "cols") refuse("after @ write rows or cols");
    if (copy && order === "cols") refuse("cp.async sweeps along lines, so it takes only @rows");
    const id = copy ? `st.shared.b${8 * Number(copy[1])}` : name;
    if (!Object.hasOwn(data.rules, id) || (copy && !Object.hasOwn(data.rules, `cp.async.ca.${copy[1]}`)) || (!copy && name.startsWith("cp.async"))) {
      refuse(`unknown access ${name.slice(0, 40)}: the box has a list, such as ldmatrix.x4, ld.shared.b32@rows, cp.async.16`);
    }
    const rule = data.rules[id], matrix = name.includes("matrix");
    if (order === undefined && !copy && !matrix) refuse(`${name} follows a fragment's slots: use ${name}@rows or @cols`);
    const lines = tile.column ? tile.cols : tile.rows, bytes = ((tile.column ? tile.rows : tile.cols) * tile.bits) / 8;
    if (lines * bytes > SHARED) refuse(`a tile of ${lines * bytes} bytes; the largest shared memory has ${SHARED}`);
    if (order === undefined && matrix && lines % 8) refuse(`${lines} lines do not make whole matrices of 8 rows`);
    if (bytes % rule.bytes) refuse(`a line of ${bytes} bytes is not a whole number of ${rule.bytes}-byte pieces`);
    const each = bytes / rule.bytes, count = lines * each, along = order === "rows" || copy;
    if (matrix && count % rule.lanes) refuse(`the tile's ${count} rows of ${rule.bytes} bytes are not a multiple of ${rule.lanes}`);
    const places = /** @type {Walk["places"]} */ ([]);
    for (let first = 0; first < count; first += rule.lanes) {
      places.push(Array.from({ length: WARP }, (_, lane) => {
        const number = first + lane;
        if (lane >= rule.lanes || number >= count) return null;
        return along ? [Math.floor(number / each), (number % each) * rule.bytes] : [number % lines, Math.floor(number / lines) * rule.bytes];
      }));
    }
    return { rule, lines, bytes, places };
  }

  /** The addresses of all lanes; an Error where one would be torn, misaligned, or the tile too large. @param {Tile} tile @param {Walk} walked */
  function addresses(tile, { rule, lines, bytes, places }) {
    const { block, swizzle } = tile, pitch = block || bytes + tile.padding;
    const count = block ? Math.ceil(bytes / block) : 1;
    if (count > 1 && (bytes % block || (lines * block) % START)) refuse(`${lines} lines of ${bytes} bytes do not fill boxes of ${block} bytes per line`);
    if (swizzle[0] && rule.bytes > 2 ** swizzle[1]) refuse(`Sw<${swizzle}> splits the ${rule.bytes} bytes of ${tile.access}`);
    const linear = (/** @type {number} */ line, /** @type {number} */ byte) => block ? Math.floor(byte / block) * lines * block + line * block + (byte % block) : line * pitch + byte;
    const room = lines * (block ? count * block : pitch);
    let last = 0;
    for (let at = 0; at < room; at++) last = Math.max(last, swizzled(at, swizzle));
    if (last + 1 > SHARED) refuse(`${last + 1} bytes; the largest shared memory has ${SHARED}`);
    return places.map((lanes) => lanes.map((place) => {
      if (!place) return null;
      const offset = swizzled(linear(place[0], place[1]), swizzle);
      if (offset % rule.bytes) refuse(`${tile.access} needs multiples of ${rule.bytes} bytes; lines are ${pitch} bytes apart`);
      return offset;
    }));
  }

  /** Lanes i and i ^ 1, or lanes i and i ^ 2, have one address or one of them is idle. */
  const agree = (/** @type {(number | null)[]} */ at) => [1, 2].some((step) => at.every((one, lane) => one === null || at[lane ^ step] === null || one === at[lane ^ step]));

  /** Phases of one access: lanes, passes, and by bank the words with their lanes. @type {Tcprobe["banks"]["phases"]} */
  function phases(rule, at) {
    const size = Math.min(rule.joined > rule.phase && agree(at) ? rule.joined : rule.phase, rule.lanes), unit = Math.max(WORD, rule.bytes), found = [];
    for (let first = 0; first < rule.lanes; first += size) {
      const banks = /** @type {Phase["banks"]} */ (new Map());
      at.slice(first, first + size).forEach((address, n) => {
        if (address === null) return;
        const bank = Math.floor(address / unit) % ((BANKS * WORD) / unit), word = rule.passes === "words" ? Math.floor(address / unit) : n;
        const words = banks.get(bank) || new Map();
        words.set(word, (words.get(word) || []).concat(first + n));
        banks.set(bank, words);
      });
      found.push({ first, size, unit, banks, passes: Math.max(0, ...Array.from(banks.values(), (words) => words.size)) });
    }
    return found;
  }

  /** @param {Rule} rule @param {Phase[]} found */
  function cycles(rule, found) {
    const active = found.some((phase) => phase.passes);
    const beats = found.filter((phase) => (rule.idle ? active : phase.passes > 0)).length;
    return Math.max(beats, found.reduce((sum, phase) => sum + phase.passes, 0));
  }

  /** The cost of the access over the whole tile. @type {Tcprobe["banks"]["cost"]} */
  function cost(tile, data) {
    const walked = walk(tile, data), { rule } = walked, all = addresses(tile, walked);
    const each = all.map((at) => cycles(rule, phases(rule, at))), worst = each.indexOf(Math.max(...each));
    const width = Math.min(rule.phase, rule.lanes);
    let ideal = 0;
    for (const at of all) for (let first = 0; first < rule.lanes; first += width) ideal += at.slice(first, first + width).some((one) => one !== null) ? 1 : 0;
    return { instructions: all.length, wavefronts: each.reduce((sum, one) => sum + one, 0), ideal, worst, rule, at: all[worst], phases: phases(rule, all[worst]), lines: walked.lines, bytes: walked.bytes };
  }

  /** The smallest swizzle that costs least, of all that matter to the banks. @type {Tcprobe["banks"]["best"]} */
  function best(tile, data) {
    const plain = { ...tile, padding: 0, block: 0, swizzle: [0, 4, 3] }, base = cost(plain, data), width = base.rule.bytes;
    const bits = Math.ceil(Math.log2(base.lines * base.bytes));
    let found = { swizzle: plain.swizzle, wavefronts: base.wavefronts };
    for (let b = 1; b <= BANK_BITS && found.wavefronts > base.ideal; b++) {
      for (let m = Math.log2(width); m <= BANK_BITS - b; m++) {
        for (let s = b; s < bits - m - b + 1; s++) {
          try {
            const { wavefronts } = cost({ ...plain, swizzle: [b, m, s] }, data);
            if (wavefronts < found.wavefronts) found = { swizzle: [b, m, s], wavefronts };
          } catch { /* this one does not fit */ }
        }
      }
    }
    return found;
  }

  root.tcprobe = Object.assign(root.tcprobe || {}, { banks: { parse, cost, best, phases } });
  if (typeof document === "undefined") return;

  root.tcprobe.pages.banks = function banksPage(data) {
    const { one, all, make, why, offers, home, colour } = root.tcprobe;
    const boxes = all("#play input, #play select"), KEYS = boxes.map((box) => box.name);
    const DEFAULT = /** @type {Record<string, string>} */ ({ tile: "64x64", type: "f16", global: "row", line: "", swizzle: "none", access: "ldmatrix" });
    let state = new URLSearchParams();

    function show() {
      const said = one("#wrong");
      said.textContent = state.get("lost") || "";
      try {
        const tile = parse(state, data), found = cost(tile, data);
        one("#passes").textContent = String(found.wavefronts);
        one("#of").textContent = ` passes for ${found.instructions} instruction${found.instructions === 1 ? "" : "s"}; without conflicts ${found.ideal}. Shown: instruction ${found.worst}, one of those that cost most.`;
        drawBanks(found.phases);
        command(tile);
        one("#best").textContent = "";
      } catch (error) {
        said.textContent = "Not possible: " + why(error) + ".";
        if (ENGINE.test(state.get("access") || "")) said.append(...instead());
        one("#passes").textContent = "-";
        for (const place of ["#of", "#best", "#command", "#banks", "#phases"]) one(place).replaceChildren();
      }
    }

    /** What can be counted or seen of the same tile: links, each of which keeps the tile. */
    function instead() {
      const tile = state.get("tile"), type = state.get("type"), mode = /^(32|64|128)B$/.exec(state.get("swizzle") || "");
      const link = (/** @type {string} */ words, /** @type {string} */ to) => { const found = make("a", words); found.href = to; return found; };
      const same = (/** @type {string} */ access) => { const to = new URLSearchParams(state); to.set("access", access); return link(access, "#" + to); };
      return [" Of the same tile: ", link("which banks each piece of an operand of wgmma lies in", `${home}play/wgmma.html#tile=${tile}&type=${type}&swizzle=${mode ? mode[1] : "none"}`),
        "; what lanes write, by ", same("st.shared.b128@rows"), " or ", same("stmatrix"), "; what they read, by ", same("ldmatrix"), "."];
    }

    /** Banks as columns, passes as rows: who is served when. @param {Phase[]} found */
    function drawBanks(found) {
      one("#phases").replaceChildren();
      const rows = /** @type {HTMLTableRowElement[]} */ ([]), wide = found[0].unit / WORD;
      found.forEach((phase, number) => {
        for (let pass = 0; pass < Math.max(1, phase.passes); pass++) {
          const line = make("tr"), head = make("th", `phase ${number}, pass ${pass}`);
          line.append(head);
          for (let bank = 0; bank < BANKS / wide; bank++) {
            const words = Array.from(phase.banks.get(bank)?.values() || []), lanes = words[pass];
            const td = make("td", lanes ? lanes.join(" ") : "");
            td.colSpan = wide;
            if (lanes) td.className = "c" + colour(lanes[0]) + (words.length > 1 ? " met" : "");
            line.append(td);
          }
          rows.push(line);
        }
        const met = Math.max(0, ...Array.from(phase.banks.values(), (words) => words.size));
        one("#phases").append(make("li", `Phase ${number}, lanes ${phase.first} to ${phase.first + phase.size - 1}: ${phase.passes} pass${phase.passes === 1 ? "" : "es"}` + (met > 1 ? `, ${met} words in one bank` : ", no two words in one bank")));
      });
      const heads = make("tr");
      heads.append(make("th", "bank"), ...Array.from({ length: BANKS / wide }, (_, bank) => { const th = make("th", String(bank * wide)); th.colSpan = wide; return th; }));
      const body = make("tbody"), top = make("thead");
      body.append(...rows);
      top.append(heads);
      one("#banks").replaceChildren(top, body);
    }

    /** @param {Tile} tile */
    function command(tile) {
      const [b, m, s] = tile.swizzle, how = tile.block ? `boxes:${tile.block}` : b ? `sw:${b},${m},${s}` : tile.padding ? `pad:${tile.padding}` : "plain";
      one("#command").textContent = `tcprobe banks --tile ${tile.rows}x${tile.cols} --type ${state.get("type") || "f16"} --global ${tile.column ? "col" : "row"} --shared ${how} --with ${tile.access}`;
    }

    function write() {
      const to = new URLSearchParams();
      for (const box of boxes) if (box.value && (box.value !== DEFAULT[box.name] || box.name !== "line")) to.set(box.name, box.value);
      state = to;
      history.replaceState(null, "", "#" + decodeURIComponent(String(to)).replace(/[^\w=&.,@:x-]/g, ""));
      show();
    }

    function read() {
      const given = new URLSearchParams(location.hash.slice(1)), unknown = Array.from(given.keys()).filter((key) => !KEYS.includes(key));
      state = new URLSearchParams();
      for (const box of boxes) {
        const value = given.get(box.name);
        const fits = value !== null && value.length <= 40 && offers(box, value);
        box.value = fits ? value : DEFAULT[box.name];
        if (value !== null && !fits) unknown.push(box.name);
        if (box.value) state.set(box.name, box.value);
      }
      if (unknown.length) state.set("lost", "This page does not know part of its address and shows the default instead.");
      show();
    }

    boxes.forEach((box) => box.addEventListener("change", write));
    one("#play").addEventListener("submit", (event) => { event.preventDefault(); write(); });
    one("#find-best").addEventListener("click", () => {
      try {
        const tile = parse(state, data), found = best(tile, data), [b, m, s] = found.swizzle;
        one("input[name=swizzle]").value = b ? `${b},${m},${s}` : "none";
        one("input[name=line]").value = "";
        write();
        one("#best").textContent = b ? `The smallest swizzle that costs least: Swizzle<${b},${m},${s}>, ${found.wavefronts} passes.` : "No swizzle costs less than the plain tile.";
      } catch (error) {
        one("#best").textContent = "Not possible: " + why(error) + ".";
      }
    });
    addEventListener("hashchange", read);
    read();
  };
})(globalThis);
