// @ts-check
"use strict";
/** The page of a layout, or of an access: cells in the colours of the threads that they name. */
tcprobe.pages.plain = function layoutPage() {
  const { all, classes, colour } = tcprobe;
  all(".pair .matrix tbody td").forEach((td) => {
    td.className = classes(td.textContent ? td.textContent.split(" ").map((holder) => parseInt(holder, 10)) : []);
  });
  all(".lanes tbody tr").forEach((line) => { line.className = "c" + colour(Number(line.cells[0].textContent)); });
};
