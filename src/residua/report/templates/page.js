"use strict";
// Sorting tables, choosing what a figure shows, and opening details for print. Without it, everything is there and in order.
(() => {
  const value = (row, column) => {
    const cell = row.cells[column];
    const number = cell.dataset.value;
    return number === undefined ? cell.textContent.trim() : number === "" ? NaN : Number(number);
  };
  const compare = (a, b) => {
    if (typeof a === "string" || typeof b === "string") return String(a).localeCompare(String(b));
    if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
    return a - b;
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const body = table.tBodies[0];
        const rows = [...body.rows].sort((x, y) => {
          const [a, b] = [value(x, column), value(y, column)];
          const unknown = Number.isNaN(a) || Number.isNaN(b);
          return down && !unknown ? compare(b, a) : compare(a, b);
        });
        body.append(...rows);
      });
    });
  }
  for (const picker of document.querySelectorAll(".picker")) {
    const figure = document.getElementById(picker.dataset.for);
    const boxes = [...picker.querySelectorAll("input")];
    const show = () => {
      for (const box of boxes) {
        for (const line of figure.querySelectorAll(`[data-series="${box.value}"]`)) {
          line.classList.toggle("off", !box.checked);
        }
      }
    };
    picker.addEventListener("change", show);
    picker.addEventListener("click", (event) => {
      const all = event.target.dataset && event.target.dataset.all;
      if (all === undefined) return;
      boxes.forEach((box) => { box.checked = all === "yes"; });
      show();
    });
    show();
  }
  let closed = [];
  window.addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    closed.forEach((each) => { each.open = true; });
  });
  window.addEventListener("afterprint", () => closed.forEach((each) => { each.open = false; }));
})();
