// @ts-check
"use strict";
/** A matrix on the page: cells by element and the other way round; and keys and pointers on cells. */
(function (/** @type {typeof globalThis} */ root) {
  const tcprobe = root.tcprobe, { all } = tcprobe, WIDEST = 22; // columns on paper

  const fill = (/** @type {any} */ table, /** @type {string} */ rows) => {
    const caption = table.caption;
    table.innerHTML = rows; // made of numbers only, by maps.js
    if (caption) table.prepend(caption);
  };
  const clear = (/** @type {any} */ table, /** @type {string} */ of) => all("." + of, table).forEach((/** @type {any} */ td) => td.classList.remove(of));

  class Grid {
    /** @param {any} table @param {Block} block @param {Size} size @param {number[]} [rows] those that are drawn */
    constructor(table, block, size, rows) {
      this.table = table;
      this.block = block;
      this.size = size;
      this.rows = rows || block.pieces.map((_, number) => number);
      this.axis = size.threads > 32 ? "thread " : "lane ";
      fill(table, tcprobe.matrixRows(block, this.rows));
    }
    /** The cell of an element, null where its row is not drawn. */
    cell(row, col) {
      const at = this.rows.indexOf(row);
      if (at < 0) return null;
      const number = this.block.pieces[row].findIndex((piece) => col >= piece.col && col < piece.col + piece.span);
      return this.table.tBodies[0].rows[at].cells[number + 1];
    }
    element(td) {
      const row = this.rows[td.parentNode.sectionRowIndex];
      return { row, col: this.block.pieces[row][td.cellIndex - 1].col };
    }
    mark(of, elements) {
      clear(this.table, of);
      elements.forEach(([row, col]) => { const td = this.cell(row, col); if (td) td.classList.add(of); });
    }
    holders(row, col) {
      return this.block.holders.get(row + "," + col) || [];
    }
    where(row, col) {
      return this.holders(row, col).map((slot) => this.axis + slot[0] + ", i " + slot[1]).join("; ") || this.size.place || "nowhere";
    }
    named(row, col) {
      return this.size.name + "[" + row + "]" + (this.block.flat ? "" : "[" + col + "]");
    }
    place(i) {
      const bit = (i * this.size.bits) % this.size.register, number = Math.floor((i * this.size.bits) / this.size.register);
      return ", register " + number + ", bits " + bit + " to " + (bit + this.size.bits - 1);
    }
  }

  const cellOf = (/** @type {any} */ event) => {
    const td = event.target.closest("td");
    return td && td.cellIndex > 0 && td.closest("tbody") ? td : null;
  };

  function onCells(table, choose, over, out) {
    const on = (kind, act) => table.addEventListener(kind, (event) => { const td = cellOf(event); if (td) act(td); });
    on("click", (td) => { choose(td); td.focus(); });
    if (over) on("mouseover", over), table.addEventListener("mouseleave", out);
  }

  function focusable(table, td) {
    all("[tabindex]", table).forEach((other) => { other.tabIndex = -1; });
    td.tabIndex = 0;
  }

  /** Archs of the same layout and evidence stand together in the data: each by itself. */
  function archs(of) {
    return Object.fromEntries(Object.entries(of).flatMap(([names, at]) => names.split(" ").map((name) => [name, at])));
  }

  /** A layout for one N: as many elements of the largest as that N has. */
  function sized(layout, n) {
    return n ? { ...layout, in: layout.in.map(([name, count]) => [name, name === "i" ? n[2] : count]) } : layout;
  }

  /** A wide table in parts, one below the other. Whether there is need. */
  function inParts(/** @type {any} */ table, /** @type {number} */ most) {
    const heads = Array.from(table.tHead.rows[0].cells).slice(1), count = heads.length;
    if (count <= most || heads.some((th) => th.colSpan > 1)) return false;
    all("colgroup", table).forEach((group) => group.remove());
    table.style.width = "";
    table.classList.remove("fixed");
    for (let first = most; first < count; first += most) {
      const part = table.cloneNode(true);
      part.classList.add("part");
      for (const line of part.rows) Array.from(line.cells).forEach((td, at) => { if (at && (at <= first || at > first + most)) td.remove(); });
      if (part.caption) part.caption.remove();
      table.parentNode.append(part);
    }
    for (const line of table.rows) Array.from(line.cells).slice(most + 1).forEach((td) => td.remove());
    return true;
  }

  /** Tables of some places stand in parts while the page is printed, and are drawn again then. */
  function onPaper(/** @type {string} */ places, /** @type {() => void} */ draw) {
    addEventListener("beforeprint", () => all(places).forEach((place) => {
      place.classList.toggle("parts", all("table", place).map((table) => inParts(table, WIDEST)).some(Boolean));
    }));
    addEventListener("afterprint", () => {
      all(".part").forEach((part) => part.remove());
      all(places).forEach((place) => place.classList.remove("parts"));
      draw();
    });
  }

  Object.assign(tcprobe, { onPaper, fill, clear, Grid, cellOf, onCells, focusable, archs, sized });
})(globalThis);
