// @ts-check
"use strict";
/** A matrix on the page: cells by element and the other way round; and keys and pointers on cells. */
(function (/** @type {typeof globalThis} */ root) {
  const tcprobe = root.tcprobe, { all } = tcprobe;

  /** @type {Tcprobe["fill"]} */
  const fill = (table, rows) => {
    const caption = table.caption;
    table.innerHTML = rows; // made of numbers only, by maps.js
    if (caption) table.prepend(caption);
  };
  /** @type {Tcprobe["clear"]} */
  const clear = (table, of) => all("." + of, table).forEach((td) => td.classList.remove(of));
  /** The number of a cell's line in its part of the table. @type {Tcprobe["lineOf"]} */
  const lineOf = (td) => td.closest("tr")?.sectionRowIndex ?? -1;

  /** @implements {Grid} */
  class Matrix {
    /** @param {HTMLTableElement} table @param {Block} block @param {Size} size @param {number[]} [rows] those that are drawn */
    constructor(table, block, size, rows) {
      this.table = table;
      this.block = block;
      this.size = size;
      this.rows = rows || block.pieces.map((_, number) => number);
      this.axis = size.threads > 32 ? "thread " : "lane ";
      fill(table, tcprobe.matrixRows(block, this.rows));
      focusable(table, table.tBodies[0].rows[0].cells[1]);
    }
    /** The cell of an element, null where its row is not drawn. @param {number} row @param {number} col */
    cell(row, col) {
      const at = this.rows.indexOf(row);
      if (at < 0) return null;
      const number = this.block.pieces[row].findIndex((piece) => col >= piece.col && col < piece.col + piece.span);
      return this.table.tBodies[0].rows[at].cells[number + 1];
    }
    /** @param {HTMLTableCellElement} td */
    element(td) {
      const row = this.rows[lineOf(td)];
      return { row, col: this.block.pieces[row][td.cellIndex - 1].col };
    }
    /** @param {string} of @param {At[]} elements */
    mark(of, elements) {
      clear(this.table, of);
      elements.forEach((at) => this.cell(...at)?.classList.add(of));
    }
    /** @param {Place} place */
    has({ row, col }) {
      return row >= 0 && row < this.block.pieces.length && col >= 0 && col < this.block.columns;
    }
    /** @param {number} row @param {number} col */
    holders(row, col) {
      return this.block.holders.get(row + "," + col) || [];
    }
    /** @param {number} row @param {number} col */
    where(row, col) {
      return this.holders(row, col).map(([thread, i]) => this.axis + thread + ", i " + i).join("; ") || this.size.place || "nowhere";
    }
    /** @param {number} row @param {number} col */
    named(row, col) {
      return this.size.name + "[" + row + "]" + (this.block.flat ? "" : "[" + col + "]");
    }
    /** @param {number} i */
    place(i) {
      const bit = (i * this.size.bits) % this.size.register, number = Math.floor((i * this.size.bits) / this.size.register);
      return ", register " + number + ", bits " + bit + " to " + (bit + this.size.bits - 1);
    }
  }

  /** The cell of an event in the body of a table. @type {Tcprobe["cellOf"]} */
  const cellOf = (event) => {
    const td = event.target instanceof Element ? event.target.closest("td") : null;
    return td && td.cellIndex > 0 && td.closest("tbody") ? td : null;
  };

  /** @type {Tcprobe["onCells"]} */
  function onCells(table, choose, over, out) {
    const on = (/** @type {string} */ kind, /** @type {OnCell} */ act) => table.addEventListener(kind, (event) => { const td = cellOf(event); if (td) act(td); });
    on("click", (td) => { choose(td); td.focus(); });
    if (over) on("mouseover", over);
    if (out) table.addEventListener("mouseleave", out);
  }

  /** Arrow keys go from cell to cell; each is chosen, and so is one by Enter. @type {Tcprobe["onArrows"]} */
  function onArrows(table, choose) {
    table.addEventListener("keydown", (event) => {
      const [down, right] = tcprobe.ARROWS[event.key] || [0, 0], td = cellOf(event);
      const next = td && table.tBodies[0].rows[lineOf(td) + down]?.cells[td.cellIndex + right];
      if (!next || next.tagName !== "TD" || !(down || right || event.key === "Enter")) return;
      event.preventDefault();
      next.focus();
      choose(next);
    });
  }

  /** @type {Tcprobe["focusable"]} */
  function focusable(table, td) {
    all("[tabindex]", table).forEach((other) => { other.tabIndex = -1; });
    td.tabIndex = 0;
  }

  /** Sizes follow from the layout. @type {Tcprobe["sizeOf"]} */
  function sizeOf(id, layout, { bits, register }) {
    const cells = tcprobe.expand(layout), [threads, elements] = layout.in.slice(-2).map((axis) => axis[1]), parts = id.split(".");
    const name = parts[id.startsWith("wmma.") ? 2 : parts.length - 1];
    const most = (/** @type {string} */ out) => { const at = layout.out.indexOf(out); return at < 0 ? 1 : cells.reduce((top, cell) => Math.max(top, cell ? cell[at] + 1 : 0), 1); };
    return { name: name.length === 1 ? name.toUpperCase() : name, rows: most("row"), cols: most("col"), threads, elements, bits, register };
  }

  /** Formulas by output, a line each. @type {Tcprobe["formulas"]} */
  const formulas = (layout, none = "") => Object.entries(layout.formula || {}).map(([out, formula]) => `${out} = ${formula || "no closed form"}`).join("\n") || none;

  Object.assign(tcprobe, { fill, clear, Grid: Matrix, cellOf, lineOf, onCells, onArrows, focusable, sizeOf, formulas });
})(globalThis);
