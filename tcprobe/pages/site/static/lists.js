// @ts-check
"use strict";
/** A page of lists: tables that are sorted, and of which some rows stay. */
tcprobe.pages.plain = function listPage() {
  const { one, all, make } = tcprobe;

  /** A box above a table: rows that have all of its words stay. */
  function rows() {
    for (const place of all("[data-rows]")) {
      const table = one(`table[data-table="${place.dataset.rows}"]`), label = make("label", "Rows with "), box = make("input");
      box.type = "search";
      box.addEventListener("input", () => {
        const words = box.value.toLowerCase().split(/\s+/);
        for (const row of table.tBodies[0].rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
      });
      label.append(box);
      place.append(label);
    }
  }

  /** Tables that are sorted by a click on a head: as numbers where both are. */
  function sorting() {
    for (const table of all("table.sorts")) {
      all("thead th", table).forEach((head, at) => {
        const button = make("button", head.textContent, "sort");
        head.replaceChildren(button);
        button.addEventListener("click", () => {
          const down = head.getAttribute("aria-sort") === "ascending";
          all("thead th", table).forEach((other) => other.removeAttribute("aria-sort"));
          head.setAttribute("aria-sort", down ? "descending" : "ascending");
          const key = (/** @type {HTMLTableRowElement} */ row) => row.cells[at].textContent.trim();
          const rows = Array.from(table.tBodies[0].rows).sort((a, b) => {
            const [x, y] = [parseFloat(key(a)), parseFloat(key(b))];
            const order = isNaN(x) && isNaN(y) ? key(a).localeCompare(key(b)) : isNaN(x) ? 1 : isNaN(y) ? -1 : x - y;
            return down ? -order : order;
          });
          table.tBodies[0].append(...rows);
        });
      });
    }
  }

  sorting();
  rows();
};
