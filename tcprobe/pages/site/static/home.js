// @ts-check
"use strict";
/** The first page: a matrix of the fragment that one types or chooses, with its formula and code. */
globalThis.tcprobe.page = function homePage() {
  const { one, all, make, data, home, Grid, blocks, rowsOf, select, load, go, onCells, focusable, search } = tcprobe;
  const input = one("#ask"), readout = one("#readout"), LETTERS = { scale_a: "scale A", scale_b: "scale B" };
  const name = (/** @type {string} */ id) => { const last = id.split(".").slice(id.startsWith("wmma.") ? 2 : -1)[0]; return last.length === 1 ? last.toUpperCase() : LETTERS[last] || last; };
  let grid = /** @type {any} */ (null), shown = data.first;

  /** A fragment as the table of words has it: sizes follow from its layout. */
  function drawn(one_) {
    const { id, layout, arch } = one_, expanded = tcprobe.expand(layout), at = (out) => layout.out.indexOf(out);
    const most = (out) => 1 + Math.max(0, ...expanded.map((cell) => (cell ? cell[at(out)] : 0)));
    const [threads, elements] = layout.in.slice(-2).map((axis) => axis[1]);
    const size = { name: name(id), rows: most("row"), cols: at("col") < 0 ? 1 : most("col"), threads, elements, bits: one_.bits || 32, register: 32 };
    const block = blocks(layout, size)[0], table = one("#live");
    grid = new Grid(table, block, size, threads > 32 ? rowsOf(block, 0) : undefined);
    focusable(table, table.tBodies[0].rows[0].cells[1]);
    shown = one_;
    const page = `f/${id.replaceAll("::", "--")}.html` + (one_.query ? "?" + one_.query : "");
    const link = one("#live-page");
    link.textContent = id;
    link.href = home + page;
    one("#live-arch").textContent = `on ${arch}` + (block.title ? `, ${block.title}` : "") + (threads > 32 ? ", warp 0" : "");
    one("#live-formula").textContent = Object.entries(layout.formula || {}).map(([out, formula]) => `${out} = ${formula || "no closed form"}`).join("\n");
    one("#live-code").textContent = code(id, arch, layout);
    say(null);
  }

  /** The formulas as functions of CUDA. */
  function code(id, arch, layout) {
    const given = layout.in.map((axis) => "int " + axis[0]).join(", ");
    const lines = Object.entries(layout.formula || {}).map(([out, formula]) => formula && `__host__ __device__ constexpr int ${out}(${given}) { return ${formula}; }`);
    return [`// ${id} on ${arch}` + (layout.id ? `, layout ${layout.id}` : ""), ...lines.filter(Boolean)].join("\n");
  }

  function say(td) {
    if (!td) return void (readout.textContent = readout.dataset.hint);
    const { row, col } = grid.element(td);
    readout.textContent = grid.named(row, col) + ": " + grid.where(row, col);
    grid.mark("on", [[row, col]]);
  }

  /** What is typed, as the commands read it. */
  function ask() {
    const text = input.value.trim();
    load("words.js").then(() => load("find.js")).then(() => {
      const words = globalThis.tcprobeWords, hit = search.find(text, words).find((found) => /^f\//.test(found.page) && found.whole !== false);
      const known = hit && search.entry(hit.page, words);
      one("#live-wrong").textContent = known ? "" : `Nothing in registers is called ${text.slice(0, 60)}. Try: m16n8k16 bf16 d`;
      if (!known) return;
      const wanted = one("#live-choose select").value, arch = known.archs.includes(wanted) ? wanted : known.archs.includes(known.main) ? known.main : known.archs[0];
      if (wanted && arch !== wanted) one("#live-wrong").textContent = `${known.id} has no table on ${wanted}; shown is ${arch}.`;
      const query = new URLSearchParams(hit.page.split("?")[1] ? hit.page.split("?")[1].split("#")[0] : "");
      if (wanted === arch) query.set("arch", arch);
      drawn({ ...known, arch, layout: search.layoutOn(known, arch, query.get("n"), words), query: String(query) });
      if (location.protocol !== "file:") go(new URLSearchParams(location.search), "#ask=" + encodeURIComponent(text));
    });
  }

  one("#live-choose").hidden = false;
  const { label } = select("Arch", ["", ...data.archs], ask);
  label.querySelector("option").textContent = "strongest evidence";
  label.querySelector("option").value = "";
  one("#live-choose").append(label);
  for (const [words, text] of data.examples) {
    const button = make("button", words);
    button.type = "button"; // Enter in the box is not a click on it
    button.addEventListener("click", () => { input.value = text; ask(); });
    one("#live-choose").append(button);
  }
  one("#live-form").addEventListener("submit", (event) => { event.preventDefault(); ask(); });
  input.addEventListener("change", ask);
  onCells(one("#live"), say, say, () => say(null));
  drawn(shown);
  const asked = new URLSearchParams(location.hash.slice(1)).get("ask");
  if (asked) input.value = asked.slice(0, 100), ask();
};
