// Tables that a click on a heading sorts: figures by the cells' data-v, words by their text. What has no figure stays last.
"use strict";

for (const table of document.querySelectorAll("table.sortable")) {
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    if (!heading.textContent.trim()) return;
    const button = document.createElement("button");
    button.textContent = heading.textContent.trim();
    heading.replaceChildren(button);
    button.addEventListener("click", () => {
      // Figures are read from the largest down, words from the first on.
      const numeric = heading.classList.contains("n");
      const before = heading.getAttribute("aria-sort");
      const descending = before ? before === "ascending" : numeric;
      headings.forEach((one) => one.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
      sortRows(table.tBodies[0], column, numeric, descending ? -1 : 1);
    });
  });
}

function sortRows(body, column, numeric, sign) {
  const key = (row) => {
    const cell = row.cells[column];
    if (!numeric) return cell.textContent.trim();
    return "v" in cell.dataset ? Number(cell.dataset.v) : null;
  };
  const compare = numeric ? (a, b) => a - b : (a, b) => a.localeCompare(b);
  const keyed = [...body.rows].map((row) => [key(row), row]);
  keyed.sort((a, b) => (a[0] === null) - (b[0] === null) || sign * compare(a[0], b[0]));
  body.append(...keyed.map((one) => one[1]));
}
