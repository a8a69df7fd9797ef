// @ts-check
"use strict";
/**
 * Tiles of wgmma in shared memory: descriptors from tiles and fields, fields from descriptors, where each element is.
 * What `tcprobe descriptor` says; numbers of types and modes come with the page.
 */
(function (/** @type {typeof globalThis} */ root) {
  const UNIT = 16, REACH = UNIT << 14, K_BYTES = 32, OF_A = 64, MOST_SHARED = 227 << 10, SHOWN = 16;
  const WIDTHS = [0, 128, 64, 32]; // by the number that a descriptor has
  /** @param {string} words @returns {never} */
  const refuse = (words) => { throw new Error(words); };

  /** The 64 bits; an Error where a field cannot be written. @type {Tcprobe["wgmma"]["encode"]} */
  function encode({ lbo, sbo, swizzle, base_offset, start }) {
    for (const [name, value] of Object.entries({ "leading byte offset": lbo, "stride byte offset": sbo, start })) {
      if (!(value >= 0 && value < REACH) || value % UNIT) refuse(`${name} ${value}: a multiple of ${UNIT} from 0 to ${REACH - UNIT} is needed`);
    }
    if (!WIDTHS.includes(swizzle)) refuse(`swizzle ${swizzle}: none, 32, 64 or 128`);
    if (!(base_offset >= 0 && base_offset < 8)) refuse(`base offset ${base_offset}: 0 to 7`);
    const field = (/** @type {number} */ value, /** @type {number} */ low) => BigInt(value) << BigInt(low);
    return field(start >> 4, 0) | field(lbo >> 4, 16) | field(sbo >> 4, 32) | field(base_offset, 49) | field(WIDTHS.indexOf(swizzle), 62);
  }

  /** The fields of 64 bits; an Error where bits are set that belong to none. @type {Tcprobe["wgmma"]["decode"]} */
  function decode(bits) {
    const known = 0x3fffn | (0x3fffn << 16n) | (0x3fffn << 32n) | (7n << 49n) | (3n << 62n);
    if (bits < 0n || bits >> 64n) refuse("a descriptor has 64 bits");
    if (bits & ~known) refuse(`bits 0x${(bits & ~known).toString(16)} belong to no field of a descriptor of wgmma`);
    const part = (/** @type {number} */ low, /** @type {number} */ count) => Number((bits >> BigInt(low)) & ((1n << BigInt(count)) - 1n));
    return { start: part(0, 14) * UNIT, lbo: part(16, 14) * UNIT, sbo: part(32, 14) * UNIT, base_offset: part(49, 3), swizzle: WIDTHS[part(62, 2)] };
  }

  const hex = (/** @type {bigint} */ bits) => "0x" + bits.toString(16).padStart(16, "0");

  /** The offset before the swizzle: `line` counts lines and `byte` bytes of k; with major mn bytes of lines, and k. @param {Fields} fields @param {string} major @param {number} line @param {number} byte */
  function linear({ lbo, sbo, swizzle }, major, line, byte) {
    const width = swizzle || UNIT, [outer, inner] = major === "k" ? [line, byte] : [byte, line];
    const [across, along] = swizzle || major === "k" ? [lbo, sbo] : [sbo, lbo];
    return (outer % 8) * width + Math.floor(outer / 8) * along + (inner % width) + Math.floor(inner / width) * across;
  }

  /** @param {Fields} fields @param {number} at */
  const swizzled = ({ swizzle, base_offset }, at) =>
    at ^ ((((at >> 7) - base_offset) & (Math.max(1, swizzle / UNIT) - 1)) << 4);

  /** A tile: its descriptor with reasons, steps, alignment, the box of a tensor map; an Error says why there is none. @type {Tcprobe["wgmma"]["tile"]} */
  function tile({ lines, k, type, major, swizzle, block }, data) {
    if (!Object.hasOwn(data.types, type)) refuse(`wgmma takes no A or B of ${type.slice(0, 20)}`);
    const bits = data.types[type].bits, width = swizzle || UNIT, inner = ((major === "k" ? k : lines) * bits) / 8, bytes = (lines * k * bits) / 8;
    if (major === "mn" && bits !== 16) refuse(`wgmma takes ${type} with k contiguous only: major mn is for f16 and bf16`);
    if (lines < 8 || lines % 8) refuse(`${lines} lines: a descriptor counts groups of 8, so a multiple of 8 is needed`);
    if (k < 1 || (k * bits) % (8 * K_BYTES)) refuse(`k ${k} is ${(k * bits) / 8} bytes: one multiply takes ${K_BYTES}, so a multiple of that is needed`);
    if (bytes > MOST_SHARED) refuse(`the tile has ${bytes} bytes; a block has at most ${MOST_SHARED} of shared memory`);
    if (inner % width) refuse(`${inner} bytes of ${major === "k" ? "k" : "lines"} are not whole rows of ${width} bytes, as the pattern needs`);
    if (lines % block) refuse(`${lines} lines are not a multiple of the ${block} that one multiply takes`);
    const taken = (block * bits) / 8;
    if (major === "mn" && swizzle && lines > block && taken % swizzle && swizzle % taken) refuse(`blocks of ${block} lines are ${taken} bytes: the second or third would begin in one row of ${swizzle} bytes and end in another`);
    const [lbo, sbo, reasons] = strides(lines, k, bits, major, swizzle), fields = { lbo, sbo, swizzle, base_offset: 0, start: 0 };
    for (const [name, value] of Object.entries({ lbo, sbo })) if (value >= REACH) refuse(`${name} ${value} does not fit 14 bits of 16 bytes: the tile is too large`);
    const whole = major === "k" ? { ...fields, lbo: width * lines } : fields; // where the LBO is ignored, one that leads on
    const place = (/** @type {number} */ line, /** @type {number} */ depth) => major === "k" ? linear(whole, major, line, Math.floor((depth * bits) / 8)) : linear(whole, major, Math.floor((line * bits) / 8), depth);
    const starts = Array.from({ length: (k * bits) / 8 / K_BYTES }, (_, step) => place(0, (step * K_BYTES * 8) / bits));
    const steps = starts.slice(1).map((at, n) => at - starts[n]), box = [(width * 8) / bits, major === "k" ? lines : k];
    const boxBytes = (box[0] * box[1] * bits) / 8;
    return {
      fields, reasons, bits, bytes, box: bits >= 8 ? box : [width, box[1]], boxes: bytes / boxBytes, boxBytes, alignment: 8 * swizzle || UNIT,
      perK: new Set(steps).size === 1 ? steps.slice(0, 1) : steps, perBlock: lines > block ? place(block, 0) : null,
      offset: (/** @type {number} */ line, /** @type {number} */ depth) => swizzled(whole, place(line, depth)),
    };
  }

  /** LBO, SBO, and why they are what they are. @param {number} lines @param {number} k @param {number} bits @param {string} major @param {number} swizzle @returns {[number, number, Described["reasons"]]} */
  function strides(lines, k, bits, major, swizzle) {
    if (major === "mn") {
      if (!swizzle) return [128, 16 * k, { lbo: "from 8 k to the next 8: a core matrix of 8 k x 16 bytes", sbo: `from ${(UNIT * 8) / bits} lines to the next: all ${k} k of 16 bytes are between them` }];
      return [swizzle * k, 8 * swizzle, { lbo: `from ${(swizzle * 8) / bits} lines to the next: all ${k} k of ${swizzle} bytes are between them`, sbo: `from 8 k to the next 8: 8 rows of ${swizzle} bytes` }];
    }
    if (!swizzle) return [16 * lines, 128, { lbo: `from one 16 bytes of k to the next: all ${lines} lines of 16 bytes are between them`, sbo: "from 8 lines to the next 8: a core matrix of 8 x 16 bytes" }];
    return [UNIT, 8 * swizzle, { lbo: "ignored: k of one wgmma stays inside a row of the pattern (16 by custom)", sbo: `from 8 lines to the next 8: 8 rows of ${swizzle} bytes` }];
  }

  root.tcprobe = Object.assign(root.tcprobe || {}, { wgmma: { encode, decode, tile, hex } });
  if (typeof document === "undefined") return;

  root.tcprobe.pages.wgmma = function wgmmaPage(data) {
    const { one, all, make, why, offers, home } = root.tcprobe, bits = one("input#bits"), readout = one("#readout"), table = one("table#where");
    const boxes = all("#tile input, #tile select"), swizzle = one("#fields select"), fields = all("#fields input[name]");
    const whole = (/** @type {string} */ text, most = 1e6) => (/^\d{1,7}$/.test(text.trim()) && Number(text) <= most ? Number(text) : refuse(`${text.slice(0, 20) || "nothing"} is not a number from 0 to ${most}`));

    /** @returns {WantedTile & {operand: string, n: number}} */
    function asked() {
      const value = Object.fromEntries(boxes.map((box) => [box.name, box.value])), size = /^(\d{1,6})x(\d{1,6})$/.exec(value.tile.trim());
      if (!size) refuse("a tile is LINESxK such as 128x64");
      const n = whole(value.n, 256);
      if (n < 8 || n % 8) refuse(`N ${n}: a multiple of 8 from 8 to 256`);
      return { lines: Number(size[1]), k: Number(size[2]), type: value.type, major: value.major, swizzle: Number(value.swizzle) || 0, operand: value.operand, n, block: value.operand === "a" ? OF_A : n };
    }

    function show() {
      const said = one("#tile-wrong"), list = one("#tile-said");
      said.textContent = "";
      try {
        const at = asked();
        const found = tile(at, data), form = data.types[at.type];
        const { lbo, sbo } = found.fields, value = hex(encode(found.fields)), how = at.swizzle || "none";
        one("#descriptor").textContent = value;
        list.replaceChildren(...[
          `LBO ${lbo}: ${found.reasons.lbo}`, `SBO ${sbo}: ${found.reasons.sbo}`, `${found.bytes} bytes; the start address is a multiple of ${found.alignment}`,
          found.perK.length ? `each k step: +${found.perK.join(", +")} bytes (+${found.perK.map((step) => step / 16).join(", +")} in the descriptor)` : "one k step",
          ...(found.perBlock === null ? [] : [`each block of ${at.block} lines: +${found.perBlock} bytes (+${found.perBlock / 16} in the descriptor)`]),
          `tensor map: ${found.boxes} x box ${found.box.join(" x ")} (${found.boxBytes} bytes), CU_TENSOR_MAP_DATA_TYPE_${form.map}, CU_TENSOR_MAP_SWIZZLE_${at.swizzle ? at.swizzle + "B" : "NONE"}`,
        ].map((line) => make("li", line)));
        one("a#page").href = `${home}${form.page}?n=${at.n}`;
        one("#command").textContent = `tcprobe descriptor --tile ${at.lines}x${at.k} --instruction ${form.form.replace("{n}", String(at.n))}.${at.operand}_smem --major ${at.major} --swizzle ${how}`;
        draw(at, found);
      } catch (error) {
        said.textContent = "Not possible: " + why(error) + ".";
        one("#descriptor").textContent = "-";
        list.replaceChildren();
        table.replaceChildren();
      }
    }

    /** Pieces of 16 bytes: rows are lines with major k, else k; a cell is the byte where one begins. @param {WantedTile} at @param {Described} found */
    function draw(at, found) {
      const per = 128 / found.bits, [rows, length] = at.major === "k" ? [at.lines, at.k] : [at.k, at.lines], count = Math.min(SHOWN, length / per);
      const top = make("tr"), head = make("thead"), body = make("tbody");
      top.append(make("td"), ...Array.from({ length: count }, (_, piece) => make("th", String(piece * per))));
      for (let row = 0; row < Math.min(SHOWN, rows); row++) {
        const line = make("tr");
        line.append(make("th", String(row)));
        for (let piece = 0; piece < count; piece++) {
          const byte = at.major === "k" ? found.offset(row, piece * per) : found.offset(piece * per, row), cell = make("td", String(byte), "c" + ((byte / UNIT) % 8));
          cell.dataset.said = `${at.major === "k" ? "line" : "k"} ${row}, ${at.major === "k" ? "k" : "lines"} ${piece * per} to ${piece * per + per - 1}: bytes ${byte} to ${byte + 15}, banks ${(byte / 4) % 32} to ${((byte / 4) % 32) + 3}`;
          line.append(cell);
        }
        body.append(line);
      }
      head.append(top);
      table.replaceChildren(make("caption", at.major === "k" ? "lines down, k across, 16 bytes a cell: where each begins" : "k down, lines across, 16 bytes a cell: where each begins"), head, body);
    }

    /** Fields of a descriptor from its bits, or the bits from its fields. */
    function bitsToFields() {
      const said = one("#fields-wrong");
      said.textContent = "";
      try {
        if (!/^0x[0-9a-f]{1,16}$/i.test(bits.value.trim())) refuse("a descriptor is 64 bits in hex, such as 0x4000004000010000");
        const now = decode(BigInt(bits.value.trim()));
        const shown = new Map(Object.entries(now));
        for (const box of fields) box.value = String(shown.get(box.name));
        swizzle.value = String(now.swizzle || "none");
        words(now);
      } catch (error) { said.textContent = "Not possible: " + why(error) + "."; }
    }

    function fieldsToBits() {
      const said = one("#fields-wrong");
      said.textContent = "";
      try {
        const [start, lbo, sbo, base_offset] = fields.map((box) => whole(box.value)), now = { start, lbo, sbo, base_offset, swizzle: Number(swizzle.value) || 0 };
        bits.value = hex(encode(now));
        words(now);
      } catch (error) { said.textContent = "Not possible: " + why(error) + "."; }
    }

    /** @param {Fields} now */
    function words(now) {
      const span = now.swizzle ? ` The pattern repeats every ${8 * now.swizzle} bytes${now.start % (8 * now.swizzle) ? ", and the start is not a multiple of that: it depends on the address, minus the base offset" : ""}.` : "";
      one("#fields-said").textContent = `Bits 0 to 13 are start / 16 = ${now.start / 16}, 16 to 29 LBO / 16 = ${now.lbo / 16}, 32 to 45 SBO / 16 = ${now.sbo / 16}, 49 to 51 the base offset ${now.base_offset}, 62 and 63 the swizzle ${WIDTHS.indexOf(now.swizzle)}.${span}`;
    }

    function write() {
      history.replaceState(null, "", "#" + boxes.map((box) => `${box.name}=${box.value.replace(/[^\w]/g, "").slice(0, 20)}`).join("&"));
      show();
    }

    function read() {
      const given = new URLSearchParams(location.hash.slice(1));
      let lost = Array.from(given.keys()).some((key) => key !== "desc" && !boxes.some((box) => box.name === key));
      for (const box of boxes) {
        const value = given.get(box.name);
        if (value === null) continue;
        const fits = box instanceof HTMLSelectElement ? offers(box, value) : (box.name === "n" ? /^\d{1,3}$/ : /^\d{1,6}x\d{1,6}$/).test(value);
        if (fits) box.value = value;
        else lost = true;
      }
      const desc = given.get("desc");
      if (desc !== null && /^0x[0-9a-f]{1,16}$/i.test(desc)) bits.value = desc;
      else if (desc !== null) lost = true;
      show();
      bitsToFields();
      if (lost) one("#tile-wrong").textContent = "This page does not know part of its address and shows the default instead.";
    }

    boxes.forEach((box) => box.addEventListener("change", write));
    [...fields, swizzle].forEach((box) => box.addEventListener("input", fieldsToBits));
    bits.addEventListener("input", bitsToFields);
    all("form").forEach((form) => form.addEventListener("submit", (event) => event.preventDefault()));
    for (const kind of ["mouseover", "click"]) {
      table.addEventListener(kind, ({ target }) => { if (target instanceof HTMLElement && target.dataset.said) readout.textContent = target.dataset.said; });
    }
    addEventListener("hashchange", read);
    read();
  };
})(globalThis);
