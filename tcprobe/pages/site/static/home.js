// @ts-check
"use strict";
/**
 * The first page: a matrix of the fragment that one types or chooses, with formula and code; the grid of all.
 * @param {HomeData} data
 */
tcprobe.pages.home = function homePage({ first, archs, examples }) {
  const { one, all, make, offers, home, Grid, blocks, rowsOf, sizeOf, formulas, select, words, go, onCells } = tcprobe;
  const input = one("input#ask"), readout = one("#readout"), place = one("#live-choose"), table = one("table#live");
  let grid = draw(first);

  /** A fragment as the table of words has it: sizes follow from its layout. @param {Live} live */
  function draw({ id, arch, bits, layout, query }) {
    const size = sizeOf(id, layout, { bits: bits || 32, register: 32 }), wide = size.threads > 32;
    const block = blocks(layout, size)[0], link = one("a#live-page");
    link.textContent = id;
    link.href = `${home}f/${id.replaceAll("::", "--")}.html` + (query ? "?" + query : "");
    one("#live-arch").textContent = `on ${arch}` + (block.title ? `, ${block.title}` : "") + (wide ? ", warp 0" : "");
    one("#live-formula").textContent = formulas(layout);
    one("#live-code").textContent = code(id, arch, layout);
    readout.textContent = String(readout.dataset.hint);
    return new Grid(table, block, size, wide ? rowsOf(block, 0) : undefined);
  }

  /** The formulas as functions of CUDA. @param {string} id @param {string} arch @param {Layout} layout */
  function code(id, arch, layout) {
    const given = layout.in.map((axis) => "int " + axis[0]).join(", ");
    const lines = Object.entries(layout.formula || {}).map(([out, formula]) => formula && `__host__ __device__ constexpr int ${out}(${given}) { return ${formula}; }`);
    return [`// ${id} on ${arch}` + (layout.id ? `, layout ${layout.id}` : ""), ...lines.filter(Boolean)].join("\n");
  }

  /** @type {OnCell} */
  function say(td) {
    const { row, col } = grid.element(td);
    readout.textContent = grid.named(row, col) + ": " + grid.where(row, col);
    grid.mark("on", [[row, col]]);
  }

  /** What is typed, as the commands read it. */
  function ask() {
    const text = input.value.trim(), wrong = one("#live-wrong");
    words().then((search) => {
      const found = search.fragment(text), wanted = chosen.box.value;
      wrong.textContent = found ? "" : search.unknown(text);
      if (!found) return;
      const { known, query } = found, arch = [wanted, query.get("arch") || "", known.main].find((name) => known.archs.includes(name)) || known.archs[0];
      if (wanted && arch !== wanted) wrong.textContent = `${known.id} has no table on ${wanted}; shown is ${arch}.`;
      query.delete("arch");
      if (arch !== known.main) query.set("arch", arch);
      grid = draw({ id: known.id, bits: 0, arch, layout: search.layoutOn(known, arch, query.get("n")), query: String(query) });
      if (location.protocol !== "file:") go(new URLSearchParams(location.search), "#ask=" + encodeURIComponent(text));
    });
  }

  /** Rows of the grid that have what is chosen; the address says it. */
  function filters() {
    const boxes = all("select[data-filter]").map((box) => ({ box, of: String(box.dataset.filter) }));
    const query = new URLSearchParams(location.search), rows = all("tbody tr[data-family]");
    const apply = () => {
      for (const row of rows) {
        row.hidden = !boxes.every(({ box, of }) => !box.value || (" " + row.dataset[of] + " ").includes(" " + box.value.replace("sm_", "") + " "));
      }
      one("#filtered").textContent = rows.filter((row) => !row.hidden).length + " of " + rows.length + " rows";
    };
    for (const { box, of } of boxes) {
      const wanted = query.get(of);
      if (wanted !== null && offers(box, wanted)) box.value = wanted;
      box.addEventListener("change", () => {
        if (box.value) query.set(of, box.value);
        else query.delete(of);
        apply();
        if (location.protocol !== "file:") go(query, location.hash);
      });
    }
    apply();
  }

  place.hidden = false;
  const chosen = select("Arch", ["strongest evidence", ...archs], ask);
  chosen.box.options[0].value = "";
  place.append(chosen.label);
  for (const [said, text] of examples) {
    const button = make("button", said);
    button.type = "button"; // Enter in the box is not a click on it
    button.addEventListener("click", () => { input.value = text; ask(); });
    place.append(button);
  }
  one("#live-form").addEventListener("submit", (event) => { event.preventDefault(); ask(); });
  input.addEventListener("change", ask);
  onCells(table, say, say, () => { readout.textContent = String(readout.dataset.hint); });
  const asked = new URLSearchParams(location.hash.slice(1)).get("ask");
  if (asked) input.value = asked.slice(0, 100), ask();
  filters();
};
