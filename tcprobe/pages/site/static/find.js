// @ts-check
"use strict";
/**
 * The search: what the commands take as names, and answers in the list. Its table of words is words.js, search.json.
 * `whole`: of a fragment or instruction, whether it has all that is asked.
 * @typedef {{text: string, page: string, note?: string, whole?: boolean}} Found
 * @typedef {{topics: number, topic?: string, wants: string[][], archs: string[], arch: string, gpu: string, n: string,
 *   element: number[] | null, slot: number[] | null, words: string[], shaped?: boolean, had?: number}} Asked words as
 *   parts of ids, an arch, an N, an element or a slot
 */
(function (/** @type {typeof globalThis} */ root) {
  const TYPES = /^(tf32|bf16|f64|f32|f16|s32|u8|s8|u4|s4|b1|u1|e[2-5]m[1-3])$/;
  const MOST = 20, SHAPE = /^(?:m)?(\d+)[x*n](?:n)?(\d+)(?:[x*k](?:k)?(\d+))?$/;
  const FAMILIES = ["mma", "wmma", "wgmma", "ldmatrix", "stmatrix", "movmatrix", "tcgen05"];

  // words of questions that tell no page from another
  const STOP = new Set(("a an and are as at be by can do does doing did every from gets get got how i if in into is it its me mean " +
    "means my no not of on one or other say that the their there this to use used using was what when where which who why " +
    "core cores will with without work works would you example explained between about should need it").split(" "));
  const TOPICS = { "cost.html": "#cost", "numerics.html": "#arithmetic" };

  /** Ids with their parts, once. */
  function entries(/** @type {any} */ table) {
    if (table.entries) return table.entries;
    const found = [], seen = new Set();
    const add = (id, layout, kind, on = 0, main = 0) => found.push({ id, kind, layout, on, main, parts: id.toLowerCase().split(".") });
    for (const [prefix, lasts, layouts, on, main] of table.ids) {
      if (!prefix.startsWith("wmma.") && !seen.has(prefix)) add(prefix, null, "m");
      seen.add(prefix);
      lasts.split(" ").forEach((last, at) => add(prefix + "." + last, layouts[at], "f", on, main));
    }
    table.instructions.forEach((id) => add(id, null, "m"));
    return (table.entries = found);
  }

  const address = (/** @type {string} */ kind, /** @type {string} */ id, query = "") => `${kind}/${id.replaceAll("::", "--")}.html${query && "?" + query}`;

  /** Names of CuTe's atoms and of warpgroup opcodes as words. @returns {string[] | null} */
  function atom(/** @type {string} */ text) {
    const types = (said) => (said.match(/TF32|BF16|F64|F32|F16|S32|[SU][841]|E[2-5]M[1-3]/gi) || []).map((one) => one.toLowerCase().replace("u1", "b1"));
    let at = /^SM\d+_(\d+)x(\d+)x(\d+)_((?:TF32|BF16|F64|F32|F16|S32|[SU][841]|E[2-5]M[1-3])*)_?([TN][TN])?/i.exec(text);
    if (at && at[1] !== "64") return ["mma", `m${at[1]}n${at[2]}k${at[3]}`, types(at[4]).join(".")].filter(Boolean);
    at = /64x(\d+)x(\d+)_?((?:[._]?(?:TF32|BF16|F64|F32|F16|S32|[SU][841]|E[2-5]M[1-3]))*)/i.exec(text);
    if (at && /^(SM90|[HIQB]GMMA)/i.test(text)) return ["wgmma", /SP|SPARSE/i.test(text) ? "sparse" : "", `m64n${at[1]}k${at[2]}`, types(at[3]).join(".")].filter(Boolean);
    at = /^SM\d+_U(?:32|16)x([1248])_(LDSM|STSM)_([NT])/i.exec(text);
    if (at) return [at[2].toUpperCase() === "LDSM" ? "ldmatrix" : "stmatrix", "x" + Number(at[1]) / (/T/i.test(at[3]) ? 2 : 1), ...(/T/i.test(at[3]) ? ["trans"] : [])];
    at = /^(LDSM|STSM)\.16\.M(T?)88(?:\.([24]))?$/i.exec(text);
    if (at) return [at[1].toUpperCase() === "LDSM" ? "ldmatrix" : "stmatrix", "x" + (at[3] || 1), ...(at[2] ? ["trans"] : [])];
    if (/^[HIQB]GMMA$/i.test(text)) return ["wgmma"];
    at = /^SM100_TMEM_(LOAD|STORE)_(\d+)dp(\d+)b/i.exec(text);
    if (at) return ["tcgen05", /load/i.test(at[1]) ? "ld" : "st", `${at[2]}x${at[3]}b`];
    if (/^MOVM/i.test(text)) return ["movmatrix"];
    return null;
  }

  /** What is asked. @returns {Asked} */
  function read(/** @type {string} */ text, /** @type {any} */ table) {
    const asked = /** @type {Asked} */ ({ topics: 0, wants: [], archs: [], arch: "", gpu: "", n: "", element: null, slot: null, words: [] });
    let rest = text.trim().slice(0, 200);
    const arch = (/** @type {string} */ name) => { asked.archs.push(asked.arch = name); };
    const take = (pattern, act) => { rest = rest.replace(pattern, (...of) => { act(of); return " "; }); };
    if (/wmma::/.test(rest)) asked.wants.push(["wmma"]);
    if (!/swizzle/i.test(rest)) take(/\b(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\b/, ([, m, n, k]) => { asked.wants.push([`m${m}n${n}k${k}`]); });
    take(/\b(?:lane|thread)\s*(\d+)(?:\s*,?\s*(?:i|element|slot)\s*=?\s*(\d+))?/i, ([, lane, i]) => { asked.slot = [Number(lane), Number(i || 0)]; });
    take(/[[(]\s*(\d+)\s*\]?\s*[,[]\s*(\d+)\s*[\])]/, ([, row, col]) => { asked.element = [Number(row), Number(col)]; });
    take(/(?:^|\s)(\d+)\s*,\s*(\d+)(?=\s|$)/, ([, row, col]) => { asked.element = [Number(row), Number(col)]; });
    take(/\brow\s*(\d+)\s*,?\s*col(?:umn)?\s*(\d+)/i, ([, row, col]) => { asked.element = [Number(row), Number(col)]; });
    const flat = table.gpus.find(([, , pattern]) => new RegExp(`^(?:${pattern})$`, "i").test(bare(rest)));
    if (flat) return { ...asked, arch: flat[0], gpu: flat[1] };
    asked.shaped = /\dx\d|m\d+n\d/.test(rest);
    for (const word of rest.split(/[\s;,<>]+/).filter(Boolean)) {
      if (/^sm_?\d+[af]?$/i.test(word)) { arch("sm_" + word.replace(/\D/g, "")); continue; }
      const gpu = table.gpus.find(([, , pattern]) => new RegExp(`^(?:${pattern})$`, "i").test(bare(word)) && /\d/.test(word));
      if (gpu && !SHAPE.test(word)) { arch(gpu[0]); continue; }
      const parts = atom(word) || [word];
      for (const part of parts) want(part.toLowerCase(), asked, table);
    }
    return asked;
  }

  const bare = (/** @type {string} */ name) => name.toLowerCase().replace(/nvidia|geforce|tesla|quadro|jetson|agx|[\s_-]+/g, "");

  function want(/** @type {string} */ word, /** @type {any} */ asked, /** @type {any} */ table) {
    const clean = word.replace(/^[^\w]+|[?!.:]+$/g, "").replace(/^wmma::|^nvcuda::/g, "");
    if (!clean) return;
    if (STOP.has(clean) && !(clean === "a" && asked.shaped)) return;
    asked.words.push(clean);
    const topic = Object.keys(TOPICS).find((page) => table.pages.some(([, at, more]) => at === page && more.split(" ").includes(clean)));
    if (topic) return void (asked.topic = TOPICS[topic], asked.topics++);
    const shape = SHAPE.exec(clean);
    const meant = table.meanings.get(clean);
    if (shape && shape[0].length > 2) {
      if (shape[1] === "64" && shape[3]) asked.n = shape[2];
      asked.wants.push([`m${shape[1]}n${shape[2]}` + (shape[3] ? `k${shape[3]}` : "")]);
    } else if (meant) for (const part of meant.split(" ")) asked.wants.push(part.split("|"));
    else if (!table.noisy.has(clean)) asked.wants.push([clean]);
  }

  /** How well an entry has a want: 3 as a part, 1 somewhere in it, 0 not. */
  function has(/** @type {any} */ entry, /** @type {string[]} */ want) {
    let best = 0;
    for (const part of want) {
      const every = part.replace(/^m64n\d+/, "m64nN").toLowerCase();
      if (entry.parts.includes(part) || entry.parts.includes(every)) best = Math.max(best, 3);
      else if (part.includes(".") ? entry.id.toLowerCase().includes(part) || entry.id.toLowerCase().includes(part.replace(/m64n\d+/, "m64nn")) : (part.length > 2 && entry.id.toLowerCase().includes(part)) || entry.parts[0] === part) best = Math.max(best, part.includes(".") ? 3 : 1);
    }
    return best;
  }

  /** @returns {Found[]} */
  function find(/** @type {string} */ text, /** @type {any} */ table) {
    if (!table.meanings) {
      table.meanings = new Map(Object.entries(table.meant).flatMap(([words, part]) => words.split("|").map((word) => [word, part])));
      table.noisy = new Set(table.noise);
    }
    const query = text.trim();
    if (!query) return [];
    if (/^0x[0-9a-f]{1,16}$/i.test(query)) return [descriptor(query, table)];
    const opcode = Object.keys(table.opcodes).filter((name) => name === query.toUpperCase() || (query.length > 3 && name.startsWith(query.toUpperCase() + ".")));
    if (opcode.length) return opcode.flatMap((name) => table.opcodes[name].map((id) => ({ text: id, page: address("m", id), note: name }))).slice(0, MOST);
    const asked = read(query, table);
    if (asked.gpu) {
      const named = pages(query.split(/\s+/), table), gpu = { text: `${asked.arch}: ${asked.gpu}`, page: `a/${asked.arch}.html` };
      return /\s/.test(query) && named[0] && named[0].covers > 0.99 ? [named[0], gpu] : [gpu, ...named];
    }
    const [first, second] = asked.archs;
    if (second && asked.wants.length < 2) return [{ text: `${first} and ${second}: what differs`, page: `diff.html?a=${first}&b=${second}` }, ...asked.archs.map((name) => ({ text: name, page: `a/${name}.html` }))];
    if (asked.arch && !asked.words.length) return [{ text: asked.arch, page: `a/${asked.arch}.html` }];
    const exact = entries(table).find((entry) => entry.id.toLowerCase() === query.toLowerCase().replace(/\.sync\.aligned|\.sync|\.aligned/g, ""));
    const ids = exact ? [exact, ...ranked(asked, table).filter((entry) => entry !== exact)] : ranked(asked, table);
    const listed = pages([...asked.words, ...asked.archs], table), shown = ids.slice(0, MOST).map((entry) => hit(entry, asked, table));
    return [...answers(ids, asked, table), ...(exact || idsFirst(ids, listed, asked, table) ? [...shown, ...listed] : [...listed, ...shown])].slice(0, MOST);
  }

  /** Whether ids say more of what is asked than pages do: a larger part of its words, or all of them as parts. */
  function idsFirst(ids, listed, asked, table) {
    if (!ids.length || !listed.length) return ids.length > 0;
    const told = asked.words.filter((/** @type {string} */ word) => !table.noisy.has(word)).length + (asked.element || asked.slot ? 1 : 0);
    // the bare name of a family; of tcgen05 there is a page
    if (asked.words.length === 1 && asked.words[0] !== "tcgen05" && table.stems.includes(asked.words[0])) return true;
    const part = asked.topics === 1 ? 1 : asked.had / Math.max(1, told, asked.wants.length), page = listed[0].covers;
    if (Math.abs(part - page) > 0.01) return part > page;
    return ids[0].score >= 3 * asked.had && (asked.had > 0) && !listed[0].own;
  }

  /** Fragments and instructions that have every want, or where there is none most of them; those that say least beyond first. */
  function ranked(/** @type {any} */ asked, /** @type {any} */ table) {
    if (!asked.wants.length) return [];
    const held = asked.element || asked.slot || asked.wants.some((want) => want.every((part) => /^(a|b|c|d|e|scale_a|scale_b|address)$/.test(part)));
    const found = [], scored = [];
    let most = 1;
    for (const entry of entries(table)) {
      if (held ? entry.kind !== "f" : false) continue;
      const each = asked.wants.map((want) => has(entry, want)), count = each.filter(Boolean).length;
      if (count < most || (count < asked.wants.length && !each.includes(3))) continue;
      if (count > most) scored.length = 0;
      most = count;
      scored.push([entry, each.reduce((sum, one) => sum + one, 0)]);
    }
    asked.had = scored.length ? most : 0;
    for (const [entry, score] of scored) {
      const apart = Object.keys(table.apart).filter((part) => entry.parts.includes(part) && !asked.wants.some((want) => want.includes(part) || want.some((one) => table.apart[part].includes(one)))).length;
      const types = asked.wants.filter((want) => want.some((part) => TYPES.test(part))).map((want) => want[0]), own = entry.parts.filter((part) => TYPES.test(part));
      const mixed = !types.length ? (own.includes("f16") ? 0 : 1) + (own.includes("f32") ? 0 : 1) : types.length ? own.filter((part) => !types.includes(part) && part !== "f32" && part !== "s32").length + (own.includes("f32") || own.includes("s32") || !own.length ? 0 : 1) : 0;
      found.push({ ...entry, score, rank: -10 * score + 30 * apart + 3 * mixed + (entry.kind === "m" ? 0 : held ? 0 : 5) + 2 * FAMILIES.indexOf(entry.parts[0]) - (/^wmma.*m16n16/.test(entry.id) ? 1 : 0) + entry.id.length / 100 });
    }
    return found.sort((one, other) => one.rank - other.rank);
  }

  function hit(/** @type {any} */ entry, /** @type {any} */ asked, /** @type {any} */ table) {
    const query = new URLSearchParams();
    if (asked.arch) query.set("arch", asked.arch);
    if (asked.n && entry.id.includes("nNk")) query.set("n", asked.n);
    return { text: entry.id, page: address(entry.kind, entry.id, String(query)) + (entry.kind === "m" && asked.topic || ""), whole: asked.had === asked.wants.length };
  }

  /** What those that fit about as well as the best one say: each answer once. @returns {Found[]} */
  function answers(/** @type {any[]} */ ids, /** @type {any} */ asked, /** @type {any} */ table) {
    const held = ids.filter((entry) => entry.kind === "f"), found = new Map();
    if (!asked.element && !asked.slot) return [];
    for (const entry of held.filter((one) => one.rank < held[0].rank + 6).slice(0, 12)) {
      const answer = answered(entry, asked, table);
      if (answer && !found.has(answer.text)) found.set(answer.text, answer);
    }
    return Array.from(found.values()).slice(0, 4);
  }

  /** Who holds the element, or what the slot holds, in a fragment; nothing where it is not inside. */
  function answered(/** @type {any} */ best, /** @type {any} */ asked, /** @type {any} */ table) {
    const other = (table.others[best.id] || {})[asked.arch];
    let layout = table.layouts[other === undefined ? best.layout : other];
    if (asked.n && best.id.includes("nNk")) layout = shrunk(layout, best.id, Number(asked.n));
    if (layout.in.length !== 2 || !layout.out.includes("col") || layout.out.includes("product")) return null;
    const cells = root.tcprobe.expand(layout), elements = layout.in[1][1], row = layout.out.indexOf("row"), col = layout.out.indexOf("col");
    const name = best.parts[best.parts.length - 1].length === 1 ? best.parts[best.parts.length - 1].toUpperCase() : best.id, axis = layout.in[0][0] === "lane" && layout.in[0][1] <= 32 ? "lane" : "thread";
    const letter = best.id.startsWith("wmma.") ? best.parts[2].toUpperCase() : name;
    const page = hit(best, asked, table).page;
    if (asked.slot) {
      const cell = cells[asked.slot[0] * elements + asked.slot[1]];
      if (asked.slot[0] >= layout.in[0][1] || asked.slot[1] >= elements || !cell) return null;
      return { text: `${letter}[${cell[row]}][${cell[col]}]`, page: `${page}#lane=${asked.slot[0]}&i=${asked.slot[1]}`, note: `${best.id}, ${axis} ${asked.slot[0]}, i ${asked.slot[1]}` };
    }
    const slots = cells.map((cell, at) => (cell && cell[row] === asked.element[0] && cell[col] === asked.element[1] ? at : -1)).filter((at) => at >= 0);
    if (!slots.length) return null;
    const said = slots.map((at) => `${axis} ${Math.floor(at / elements)}, i ${at % elements}`).join("; ");
    return { text: said, page: `${page}#r=${asked.element[0]}&c=${asked.element[1]}`, note: `${letter}[${asked.element.join("][")}] of ${best.id}` };
  }

  /** The layout of one N: as many elements of the largest as N columns of D take; A is the same for all. */
  function shrunk(layout, id, n) {
    if (!id.endsWith(".d") || layout.in.length !== 2) return layout;
    const [lane, [i, most]] = layout.in;
    return { ...layout, id: "", in: [lane, [i, Math.min(most, (64 * n) / lane[1])]] };
  }

  /** A word without its endings: swizzles, swizzling, swizzled are one. */
  function stem(/** @type {string} */ word) {
    const one = word.length > 3 && /[^s]s$/.test(word) ? word.slice(0, -1) : word;
    return one.length > 4 ? one.replace(/(?:ing|ed|e)$/, "") : one;
  }

  /** Pages as stems of their titles and of their further words, once; and in how many pages each stem is. */
  function stemmed(/** @type {any} */ table) {
    if (table.stemmed) return table.stemmed;
    const split = (/** @type {string} */ text) => text.toLowerCase().split(/[\s:,()<>/?!]+/).filter(Boolean).map(stem), counts = new Map();
    const found = table.pages.map(([title, page, more]) => {
      const own = split(more), all = new Set([...split(title), ...own]);
      if (!page.startsWith("l/")) all.forEach((word) => counts.set(word, (counts.get(word) || 0) + 1));
      return { title, page, own: new Set(own), all };
    });
    return (table.stemmed = { found, counts });
  }

  /** Pages that have most of the words, rare ones above others. @returns {(Found & {covers: number, own: boolean})[]} */
  function pages(/** @type {string[]} */ words, /** @type {any} */ table) {
    const asked = Array.from(new Set(words.flatMap((word) => word.toLowerCase().replace(/^cu_tensor_map_/, "").split(/[^\w:-]+/)).filter((word) => word && !STOP.has(word)).map(stem)));
    if (!asked.length) return [];
    const { found, counts } = stemmed(table), weights = asked.map((word) => 1 / (1 + Math.log(counts.get(word) || 1)));
    const sum = weights.reduce((one, other) => one + other, 0), listed = [];
    for (const { title, page, own, all } of found) {
      const there = asked.map((word) => all.has(word) || (word.length > 3 && Array.from(all).some((/** @type {any} */ one) => one.startsWith(word))));
      const covers = there.reduce((total, is, at) => total + (is ? weights[at] : 0), 0) / sum;
      const count = there.filter(Boolean).length;
      if (Math.max(covers, count / asked.length) < 0.3) continue;
      const rank = -10 * covers - 0.2 * asked.filter((word) => own.has(word)).length + (page.includes("#") ? 0.4 : 0) + (page.startsWith("l/") ? 3 : 0) - (page.endsWith("/index.html") ? 0.5 : 0) + (page.startsWith("index.html") ? 3 : 0) + all.size / 200;
      listed.push({ text: title, page, rank, covers: Math.min(covers, count / asked.length), own: asked.every((word) => own.has(word)) });
    }
    return listed.sort((one, other) => one.rank - other.rank).slice(0, 6);
  }

  /** The 64 bits of a descriptor of wgmma in words. @returns {Found} */
  function descriptor(/** @type {string} */ text, /** @type {any} */ table) {
    const value = BigInt(text), bits = (low, count) => Number((value >> BigInt(low)) & ((1n << BigInt(count)) - 1n));
    const known = 0x3fffn | (0x3fffn << 16n) | (0x3fffn << 32n) | (7n << 49n) | (3n << 62n), page = "method.html#descriptor";
    if (bits(46, 2) === 1) return { text: "a descriptor of tcgen05", page: "tensor-memory.html", note: `tcprobe descriptor ${text.toLowerCase()} decodes it` };
    if (value & ~known) return { text: "no descriptor of wgmma", page, note: `bits that it does not use are set: 0x${(value & ~known).toString(16)}` };
    const swizzle = table.modes[bits(62, 2)];
    return { text: `start ${16 * bits(0, 14)}, LBO ${16 * bits(16, 14)}, SBO ${16 * bits(32, 14)}, base offset ${bits(49, 3)}, ${swizzle ? `swizzle ${swizzle}B` : "no swizzle"}`, page, note: `descriptor of wgmma ${text.toLowerCase()}, in bytes` };
  }

  /** A fragment by its page: its layout's number, and the archs that have a table of it. */
  function entry(/** @type {string} */ page, /** @type {any} */ table) {
    const id = page.slice(2).split(".html")[0].replaceAll("--", "::"), found = entries(table).find((one) => one.id === id);
    if (!found) return null;
    const archs = table.archs.filter((_, at) => (found.on >> at) & 1);
    return { ...found, archs, main: table.archs[found.main] };
  }

  /** Its layout on an arch, and for one N. */
  function layoutOn(/** @type {any} */ found, /** @type {string} */ arch, /** @type {string | null} */ n, /** @type {any} */ table) {
    const other = (table.others[found.id] || {})[arch], layout = table.layouts[other === undefined ? found.layout : other];
    return found.id.includes("nNk") ? shrunk(layout, found.id, Number(n || 8)) : layout;
  }

  const search = Object.assign((root.tcprobe && root.tcprobe.search) || {}, { find, entry, layoutOn });
  root.tcprobe = Object.assign(root.tcprobe || {}, { search });
  if (typeof document === "undefined") return;

  /** The box on the page. */
  root.tcprobe.find = function box() {
    const { one, all, make, home, ARROWS, load } = root.tcprobe, input = one("#search"), list = one("#results");
    let hits = /** @type {Found[]} */ ([]);
    function show() {
      hits = find(input.value, root.tcprobeWords);
      list.replaceChildren(...hits.map(({ text, page, note }) => {
        const item = make("li"), link = make("a", text);
        link.href = home + page;
        if (note) link.append(make("small", " " + note, "soft"));
        item.append(link);
        return item;
      }));
      root.tcprobe.thumbnails(list);
      one("#count").textContent = input.value.trim() ? " " + (hits.length ? hits.length + (hits.length === MOST ? " or more" : "") : "none") + " found" : "";
      list.hidden = !hits.length;
    }
    input.addEventListener("input", show);
    addEventListener("keydown", (event) => {
      const links = all("a", list), at = links.indexOf(document.activeElement), step = (ARROWS[event.key] || [0])[0];
      if (step && links.length && (at >= 0 || event.target === input)) {
        event.preventDefault();
        (links[at + step] || (step < 0 ? input : links[at])).focus();
      } else if (event.key === "Escape") list.hidden = true;
      else if (event.key === "Enter" && event.target === input && links[0]) location.href = links[0].href;
    });
    ("expand" in root.tcprobe ? Promise.resolve() : load("maps.js")).then(show);
  };
})(globalThis);
