// @ts-check
"use strict";
/**
 * The search: what the commands take as names, and answers in the list, by a table of words.
 * @param {Words} table @returns {Search}
 */
tcprobe.search = function search(table) {
  const TYPES = /^(tf32|bf16|f64|f32|f16|s32|u8|s8|u4|s4|b1|u1|e[2-5]m[1-3])$/;
  const MOST = 20, SHAPE = /^(?:m)?(\d+)[x*n](?:n)?(\d+)(?:[x*k](?:k)?(\d+))?$/;
  const KINDS = "TF32|BF16|F64|F32|F16|S32|[SU][841]|E[2-5]M[1-3]", GMMA = new Map([["I", "s8"], ["Q", "fp8"], ["B", "b1"]]);
  const FAMILIES = ["mma", "wmma", "wgmma", "ldmatrix", "stmatrix", "movmatrix", "tcgen05"];

  // words of questions that tell no page from another
  const STOP = new Set(("a an and are as at be by can do does doing did every from gets get got how i if in into is it its me mean " +
    "means my no not of on one or other say that the their there this to use used using was what when where which who why " +
    "core cores will with without work works would you example explained between about should need it").split(" "));
  const TOPICS = /** @type {Record<string, string>} */ ({ "cost.html": "#cost", "numerics.html": "#arithmetic" });

  /** @param {string} kind @param {string} id */
  const address = (kind, id, query = "") => `${kind}/${id.replaceAll("::", "--")}.html${query && "?" + query}`;
  const bare = (/** @type {string} */ name) => name.toLowerCase().replace(/nvidia|geforce|tesla|quadro|jetson|agx|[\s_-]+/g, "");

  /** Names of CuTe's atoms and of warpgroup opcodes as words. @param {string} text */
  function atom(text) {
    const types = (/** @type {string} */ said) => (said.match(new RegExp(KINDS, "gi")) || []).map((one) => one.toLowerCase().replace("u1", "b1"));
    let at = new RegExp(`^SM\\d+_(\\d+)x(\\d+)x(\\d+)_((?:${KINDS})*)`, "i").exec(text);
    if (at && at[1] !== "64") return ["mma", `m${at[1]}n${at[2]}k${at[3]}`, types(at[4]).join(".")].filter(Boolean);
    at = new RegExp(`64x(\\d+)x(\\d+)_?((?:[._]?(?:${KINDS}))*)`, "i").exec(text);
    if (at && /^(SM90|[HIQB]GMMA)/i.test(text)) return ["wgmma", /SP|SPARSE/i.test(text) ? "sparse" : "", `m64n${at[1]}k${at[2]}`, types(at[3]).join(".")].filter(Boolean);
    at = /^SM\d+_U(?:32|16)x([1248])_(LDSM|STSM)_([NT])/i.exec(text);
    if (at) return [at[2].toUpperCase() === "LDSM" ? "ldmatrix" : "stmatrix", "x" + Number(at[1]) / (/T/i.test(at[3]) ? 2 : 1), ...(/T/i.test(at[3]) ? ["trans"] : [])];
    at = /^(LDSM|STSM)\.16\.M(T?)88(?:\.([24]))?$/i.exec(text);
    if (at) return [at[1].toUpperCase() === "LDSM" ? "ldmatrix" : "stmatrix", "x" + (at[3] || 1), ...(at[2] ? ["trans"] : [])];
    at = /^([HIQB])GMMA$/i.exec(text);
    if (at) return ["wgmma", GMMA.get(at[1].toUpperCase()) || ""];
    at = /^SM100_TMEM_(LOAD|STORE)_(\d+)dp(\d+)b/i.exec(text);
    if (at) return ["tcgen05", /load/i.test(at[1]) ? "ld" : "st", `${at[2]}x${at[3]}b`];
    if (/^MOVM/i.test(text)) return ["movmatrix"];
    return [text];
  }

  /** A word without its endings: swizzles, swizzling, swizzled are one. @param {string} word */
  function stem(word) {
    const one = word.length > 3 && /[^s]s$/.test(word) ? word.slice(0, -1) : word;
    return one.length > 4 ? one.replace(/(?:ing|ed|e)$/, "") : one;
  }

  /** How well an entry has a want: 3 as a part, 1 somewhere in it, 0 not. @param {Entry} entry @param {string[]} want */
  function has(entry, want) {
    let best = 0;
    for (const part of want) {
      const every = part.replace(/^m64n\d+/, "m64nN").toLowerCase(), id = entry.id.toLowerCase(), whole = part.includes(".");
      const inside = whole ? id.includes(part) || id.includes(part.replace(/m64n\d+/, "m64nn")) : (part.length > 2 && id.includes(part)) || entry.parts[0] === part;
      if (entry.parts.includes(part) || entry.parts.includes(every)) best = 3;
      else if (inside) best = Math.max(best, whole ? 3 : 1);
    }
    return best;
  }

  /** The layout of one N: as many elements of the largest as N columns of D take; A is the same for all. @param {Layout} layout @param {string} id @param {number} n */
  function shrunk(layout, id, n) {
    if (!id.endsWith(".d") || layout.in.length !== 2) return layout;
    const [[, threads], [, most]] = layout.in;
    return { ...tcprobe.sized(layout, Math.min(most, (64 * n) / threads)), id: "" };
  }

  const meanings = new Map(Object.entries(table.meant).flatMap(([words, part]) => words.split("|").map((word) => [word, part])));
  const entries = entriesOf(), { stemmed, counts } = stems();

  /** Ids with their parts. */
  function entriesOf() {
    const found = /** @type {Entry[]} */ ([]), seen = /** @type {Set<string>} */ (new Set());
    const add = (/** @type {string} */ id, kind = "m", layout = -1, on = 0, main = 0) => found.push({ id, kind, layout, on, main, parts: id.toLowerCase().split(".") });
    for (const [prefix, lasts, layouts, on, main] of table.ids) {
      if (!prefix.startsWith("wmma.") && !seen.has(prefix)) add(prefix);
      seen.add(prefix);
      lasts.split(" ").forEach((last, at) => add(prefix + "." + last, "f", layouts[at], on, main));
    }
    table.instructions.forEach((id) => add(id));
    return found;
  }

  /** The layout of a fragment on an arch. @param {Entry | Known} of @param {string} arch */
  const layoutBy = (of, arch) => table.layouts[table.others[of.id]?.[arch] ?? of.layout];

  /** The GPU of a name. @param {string} name */
  const gpuOf = (name) => table.gpus.find(([, , pattern]) => new RegExp(`^(?:${pattern})$`, "i").test(bare(name)));

  /** What is asked. @param {string} text */
  function read(text) {
    const asked = /** @type {Question} */ ({ topics: 0, topic: "", wants: [], archs: [], arch: "", gpu: "", n: "", element: null, slot: null, words: [], shaped: false, had: 0 });
    let rest = text.trim().slice(0, 200);
    const arch = (/** @type {string} */ name) => { asked.archs.push(asked.arch = name); };
    const take = (/** @type {RegExp} */ pattern, /** @type {(of: string[]) => void} */ act) => { rest = rest.replace(pattern, (...of) => { act(of); return " "; }); };
    if (/wmma::/.test(rest)) asked.wants.push(["wmma"]);
    if (!/swizzle/i.test(rest)) take(/\b(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\b/, ([, m, n, k]) => { asked.wants.push([`m${m}n${n}k${k}`]); });
    take(/\b(?:lane|thread)\s*(\d+)(?:\s*,?\s*(?:i|element|slot)\s*=?\s*(\d+))?/i, ([, lane, i]) => { asked.slot = [Number(lane), Number(i || 0)]; });
    take(/[[(]\s*(\d+)\s*\]?\s*[,[]\s*(\d+)\s*[\])]/, ([, row, col]) => { asked.element = [Number(row), Number(col)]; });
    take(/(?:^|\s)(\d+)\s*,\s*(\d+)(?=\s|$)/, ([, row, col]) => { asked.element = [Number(row), Number(col)]; });
    take(/\brow\s*(\d+)\s*,?\s*col(?:umn)?\s*(\d+)/i, ([, row, col]) => { asked.element = [Number(row), Number(col)]; });
    take(/\breg(?:ister)?\s*\d+/i, () => { asked.slot = null; }); // of how many i it consists, the table of words does not say
    const flat = rest.toLowerCase().split(/\s+/).some((word) => table.stems.includes(word) || meanings.has(word)) ? undefined : gpuOf(rest);
    if (flat) return { ...asked, arch: flat[0], gpu: flat[1] };
    asked.shaped = /\dx\d|m\d+n\d/.test(rest);
    for (const word of rest.split(/[\s;,<>]+/).filter(Boolean)) {
      if (/^sm_?\d+[af]?$/i.test(word)) { arch("sm_" + word.replace(/\D/g, "")); continue; }
      const gpu = /\d/.test(word) && !SHAPE.test(word) ? gpuOf(word) : undefined;
      if (gpu) arch(gpu[0]);
      else atom(word).forEach((part) => want(part.toLowerCase(), asked));
    }
    return asked;
  }

  /** @param {string} word @param {Question} asked */
  function want(word, asked) {
    const clean = word.replace(/^[^\w]+|[?!.:]+$/g, "").replace(/^wmma::|^nvcuda::/g, "");
    if (!clean) return;
    if (STOP.has(clean) && !(clean === "a" && asked.shaped)) return;
    asked.words.push(clean);
    const topic = Object.keys(TOPICS).find((page) => table.pages.some(([, at, more]) => at === page && more.split(" ").includes(clean)));
    if (topic) return void (asked.topic = TOPICS[topic], asked.topics++);
    const shape = SHAPE.exec(clean), meant = meanings.get(clean);
    if (/^n\d+$/.test(clean)) asked.n = clean.slice(1);
    else if (shape && shape[0].length > 2) {
      if (shape[1] === "64" && shape[3]) asked.n = shape[2];
      asked.wants.push([`m${shape[1]}n${shape[2]}` + (shape[3] ? `k${shape[3]}` : "")]);
    } else if (meant) for (const part of meant.split(" ")) asked.wants.push(part.split("|"));
    else if (!table.noise.includes(clean)) asked.wants.push([clean]);
  }

  /** @type {Search["find"]} */
  function find(text) {
    const query = text.trim();
    if (!query) return [];
    if (/^0x[0-9a-f]{1,16}$/i.test(query)) return [descriptor(query)];
    const opcode = Object.keys(table.opcodes).filter((name) => name === query.toUpperCase() || (query.length > 3 && name.startsWith(query.toUpperCase() + ".")));
    if (opcode.length) return opcode.flatMap((name) => table.opcodes[name].map((id) => ({ text: id, page: address("m", id), note: name }))).slice(0, MOST);
    const asked = read(query);
    if (asked.gpu) {
      const named = pages(query.split(/\s+/)), gpu = { text: `${asked.arch}: ${asked.gpu}`, page: `a/${asked.arch}.html` };
      return /\s/.test(query) && named[0] && named[0].covers > 0.99 ? [named[0], gpu] : [gpu, ...named];
    }
    const [first, second] = asked.archs;
    if (second && asked.wants.length < 2) return [{ text: `${first} and ${second}: what differs`, page: `diff.html?a=${first}&b=${second}` }, ...asked.archs.map((name) => ({ text: name, page: `a/${name}.html` }))];
    if (asked.arch && !asked.words.length) return [{ text: asked.arch, page: `a/${asked.arch}.html` }];
    const exact = entries.find((entry) => entry.id.toLowerCase() === query.toLowerCase().replace(/\.sync\.aligned|\.sync|\.aligned/g, ""));
    const ids = exact ? [{ ...exact, score: 0, rank: -Infinity }, ...ranked(asked).filter((entry) => entry.id !== exact.id)] : ranked(asked);
    const listed = pages([...asked.words, ...asked.archs]), shown = ids.slice(0, MOST).map((entry) => hit(entry, asked));
    return [...answers(ids, asked), ...(exact || idsFirst(ids, listed, asked) ? [...shown, ...listed] : [...listed, ...shown])].slice(0, MOST);
  }

  /** Whether ids say more of what is asked than pages do: a larger part of its words, or all of them as parts. @param {Ranked[]} ids @param {Listing[]} listed @param {Question} asked */
  function idsFirst(ids, listed, asked) {
    if (!ids.length || !listed.length) return ids.length > 0;
    const told = asked.words.filter((word) => !table.noise.includes(word)).length + (asked.element || asked.slot ? 1 : 0);
    // the bare name of a family; of tcgen05 there is a page
    if (asked.words.length === 1 && asked.words[0] !== "tcgen05" && table.stems.includes(asked.words[0])) return true;
    const part = asked.topics === 1 ? 1 : asked.had / Math.max(1, told, asked.wants.length), page = listed[0].covers;
    if (Math.abs(part - page) > 0.01) return part > page;
    return ids[0].score >= 3 * asked.had && (asked.had > 0) && !listed[0].own;
  }

  /** Fragments and instructions that have every want, or where there is none most of them; those that say least beyond first. @param {Question} asked */
  function ranked(asked) {
    if (!asked.wants.length) return [];
    const held = asked.element || asked.slot || asked.wants.some((want) => want.every((part) => /^(a|b|c|d|e|scale_a|scale_b|address)$/.test(part)));
    const found = /** @type {Ranked[]} */ ([]), scored = /** @type {[Entry, number][]} */ ([]);
    let most = 1;
    for (const entry of entries) {
      if (held && entry.kind !== "f") continue;
      const each = asked.wants.map((want) => has(entry, want)), count = each.filter(Boolean).length;
      if (count < most || (count < asked.wants.length && !each.includes(3))) continue;
      if (count > most) scored.length = 0;
      most = count;
      scored.push([entry, each.reduce((sum, one) => sum + one)]);
    }
    asked.had = scored.length ? most : 0;
    for (const [entry, score] of scored) {
      const apart = Object.keys(table.apart).filter((part) => entry.parts.includes(part) && !asked.wants.some((want) => want.includes(part) || want.some((one) => table.apart[part].includes(one)))).length;
      const types = asked.wants.filter((want) => want.some((part) => TYPES.test(part))).map((want) => want[0]), own = entry.parts.filter((part) => TYPES.test(part));
      const mixed = !types.length ? (own.includes("f16") ? 0 : 1) + (own.includes("f32") ? 0 : 1) : own.filter((part) => !types.includes(part) && part !== "f32" && part !== "s32").length + (own.includes("f32") || own.includes("s32") || !own.length ? 0 : 1);
      found.push({ ...entry, score, rank: -10 * score + 30 * apart + 3 * mixed + (entry.kind === "m" ? 0 : held ? 0 : 5) + 2 * FAMILIES.indexOf(entry.parts[0]) - (/^wmma.*m16n16|^mma\.m16n8k16.*f16/.test(entry.id) ? 1 : 0) + entry.id.length / 100 });
    }
    return found.sort((one, other) => one.rank - other.rank);
  }

  /** @param {Entry} entry @param {Question} asked */
  function hit(entry, asked) {
    const query = new URLSearchParams();
    if (asked.arch) query.set("arch", asked.arch);
    if (asked.n && entry.id.includes("nNk")) query.set("n", asked.n);
    return { text: entry.id, page: address(entry.kind, entry.id, String(query)) + (entry.kind === "m" ? asked.topic : ""), whole: asked.had === asked.wants.length };
  }

  /** What those that fit about as well as the best one say: each answer once. @param {Ranked[]} ids @param {Question} asked @returns {Hit[]} */
  function answers(ids, asked) {
    const held = ids.filter((entry) => entry.kind === "f"), found = /** @type {Map<string, Hit>} */ (new Map());
    for (const entry of held.filter((one) => one.rank < held[0].rank + 6).slice(0, 12)) {
      const answer = answered(entry, asked);
      if (answer && !found.has(answer.text)) found.set(answer.text, answer);
    }
    return Array.from(found.values()).slice(0, 4);
  }

  /** Who holds the element, or what the slot holds, in a fragment; nothing where it is not inside. @param {Entry} best @param {Question} asked */
  function answered(best, asked) {
    const { slot, element } = asked;
    // where no N is asked, the least that has it
    const n = best.id.includes("nNk") ? asked.n || String(8 + (element ? element[1] & ~7 : slot ? (2 * slot[1]) & ~7 : 0)) : "";
    const layout = n ? shrunk(layoutBy(best, asked.arch), best.id, Number(n)) : layoutBy(best, asked.arch);
    if (!(slot || element) || layout.in.length !== 2 || !layout.out.includes("col") || layout.out.includes("product")) return null;
    const cells = tcprobe.expand(layout), elements = layout.in[1][1], row = layout.out.indexOf("row"), col = layout.out.indexOf("col");
    const last = best.parts[best.parts.length - 1], name = last.length === 1 ? last.toUpperCase() : best.id, axis = layout.in[0][0] === "lane" && layout.in[0][1] <= 32 ? "lane" : "thread";
    const letter = best.id.startsWith("wmma.") ? best.parts[2].toUpperCase() : name;
    const { page } = hit(best, { ...asked, n });
    if (slot) {
      const [lane, i] = slot, cell = cells[lane * elements + i];
      if (lane >= layout.in[0][1] || i >= elements || !cell) return null;
      return { text: `${letter}[${cell[row]}][${cell[col]}]`, page: `${page}#lane=${lane}&i=${i}`, note: `${best.id}, ${axis} ${lane}, i ${i}` };
    }
    if (!element) return null;
    const slots = cells.map((cell, at) => (cell && cell[row] === element[0] && cell[col] === element[1] ? at : -1)).filter((at) => at >= 0);
    if (!slots.length) return null;
    const said = slots.map((at) => `${axis} ${Math.floor(at / elements)}, i ${at % elements}`).join("; ");
    return { text: said, page: `${page}#r=${element[0]}&c=${element[1]}`, note: `${letter}[${element.join("][")}] of ${best.id}` };
  }

  /** Pages as stems of their titles and of their further words; and in how many pages each stem is. */
  function stems() {
    const split = (/** @type {string} */ text) => text.toLowerCase().split(/[\s:,()<>/?!]+/).filter(Boolean).map(stem), counts = /** @type {Map<string, number>} */ (new Map());
    const stemmed = table.pages.map(([title, page, more]) => {
      const own = split(more), all = new Set([...split(title), ...own]);
      if (!page.startsWith("l/")) all.forEach((word) => counts.set(word, (counts.get(word) || 0) + 1));
      return { title, page, own: new Set(own), all };
    });
    return { stemmed, counts };
  }

  /** Pages that have most of the words, rare ones above others. @param {string[]} words @returns {Listing[]} */
  function pages(words) {
    const asked = Array.from(new Set(words.map((word) => word.toLowerCase().replace(/^cu_tensor_map_/, "")).flatMap((word) => (counts.has(stem(word)) ? word : word.split(/[^\w:-]+/))).filter((word) => word && !STOP.has(word)).map(stem)));
    if (!asked.length) return [];
    const weights = asked.map((word) => 1 / (1 + Math.log(counts.get(word) || 1)));
    const sum = weights.reduce((one, other) => one + other, 0), listed = [];
    for (const { title, page, own, all } of stemmed) {
      const there = asked.map((word) => all.has(word) || (word.length > 3 && Array.from(all).some((one) => one.startsWith(word))));
      const covers = there.reduce((total, is, at) => total + (is ? weights[at] : 0), 0) / sum;
      const count = there.filter(Boolean).length;
      if (Math.max(covers, count / asked.length) < 0.3) continue;
      const rank = -10 * covers - 0.2 * asked.filter((word) => own.has(word)).length + (page.includes("#") ? 0.4 : 0) + (page.startsWith("l/") ? 3 : 0) - (page.endsWith("/index.html") ? 0.5 : 0) + (page.startsWith("index.html") ? 3 : 0) + all.size / 200;
      listed.push({ text: title, page, rank, covers: Math.min(covers, count / asked.length), own: asked.every((word) => own.has(word)) });
    }
    return listed.sort((one, other) => one.rank - other.rank).slice(0, 6);
  }

  /** The 64 bits of a descriptor of wgmma in words. @param {string} text @returns {Hit} */
  function descriptor(text) {
    const value = BigInt(text), bits = (/** @type {number} */ low, /** @type {number} */ count) => Number((value >> BigInt(low)) & ((1n << BigInt(count)) - 1n));
    const known = 0x3fffn | (0x3fffn << 16n) | (0x3fffn << 32n) | (7n << 49n) | (3n << 62n), page = "method.html#descriptor";
    if (bits(46, 2) === 1) return { text: "a descriptor of tcgen05", page: "tensor-memory.html", note: `tcprobe descriptor ${text.toLowerCase()} decodes it` };
    if (value & ~known) return { text: "no descriptor of wgmma", page, note: `bits that it does not use are set: 0x${(value & ~known).toString(16)}` };
    const swizzle = table.modes[bits(62, 2)];
    return { text: `start ${16 * bits(0, 14)}, LBO ${16 * bits(16, 14)}, SBO ${16 * bits(32, 14)}, base offset ${bits(49, 3)}, ${swizzle ? `swizzle ${swizzle}B` : "no swizzle"}`, page, note: `descriptor of wgmma ${text.toLowerCase()}, in bytes` };
  }

  /** The fragment that a text names, with what its page's address says of arch and N. @type {Search["fragment"]} */
  function fragment(text) {
    const hit = find(text).find(({ page, whole }) => page.startsWith("f/") && whole !== false), known = hit && entry(hit.page);
    return known ? { known, query: new URLSearchParams(hit.page.split("#")[0].split("?")[1]) } : null;
  }
  const unknown = (/** @type {string} */ text) => `Nothing in registers is called ${text.slice(0, 60) || "nothing"}. Try: m16n8k16 bf16 d`;

  /** A fragment by its page: its layout's number, and the archs that have a table of it. @type {Search["entry"]} */
  function entry(page) {
    const id = page.slice(2).split(".html")[0].replaceAll("--", "::"), found = entries.find((one) => one.id === id);
    return found ? { ...found, archs: table.archs.filter((_, at) => (found.on >> at) & 1), main: table.archs[found.main] } : null;
  }

  /** Its layout on an arch, and for one N. @type {Search["layoutOn"]} */
  function layoutOn(found, arch, n) {
    const layout = layoutBy(found, arch);
    return found.id.includes("nNk") ? shrunk(layout, found.id, Number(n || 8)) : layout;
  }

  return { find, most: MOST, fragment, unknown, entry, layoutOn };
};

/** The box on the page. @param {Search} search */
tcprobe.find = function box({ find, most }) {
  const { one, all, make, home, ARROWS, thumbnails } = tcprobe, input = one("input#search"), list = one("#results");
  function show() {
    const hits = find(input.value);
    list.replaceChildren(...hits.map(({ text, page, note }) => {
      const item = make("li"), link = make("a", text);
      link.href = home + page;
      if (note) link.append(make("small", " " + note, "soft"));
      item.append(link);
      return item;
    }));
    thumbnails(list);
    one("#count").textContent = input.value.trim() ? " " + (hits.length ? hits.length + (hits.length === most ? " or more" : "") : "none") + " found" : "";
    list.hidden = !hits.length;
  }
  input.addEventListener("input", show);
  addEventListener("keydown", (event) => {
    const links = all("a", list), at = links.findIndex((link) => link === document.activeElement), step = (ARROWS[event.key] || [0])[0];
    if (step && links.length && (at >= 0 || event.target === input)) {
      event.preventDefault();
      (links[at + step] || (step < 0 ? input : links[at])).focus();
    } else if (event.key === "Escape") list.hidden = true;
    else if (event.key === "Enter" && event.target === input && links[0]) location.href = links[0].href;
  });
  show();
};
