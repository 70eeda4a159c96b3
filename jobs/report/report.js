"use strict";
const root = document.documentElement;
const toggle = document.querySelector("#theme");
if (toggle) {
  toggle.hidden = false;
  toggle.addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
}
for (const figure of document.querySelectorAll("figure")) {
  const said = figure.querySelector("output");
  for (const chart of figure.querySelectorAll(".chart")) {
    const marks = [...chart.querySelectorAll(".mark-rect [aria-label], .mark-symbol [aria-label]")];
    let at = -1;
    const choose = (number) => {
      if (!marks.length) return;
      if (at >= 0) marks[at].classList.remove("chosen");
      at = (number + marks.length) % marks.length;
      marks[at].classList.add("chosen");
      said.textContent = marks[at].getAttribute("aria-label");
    };
    chart.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (step) { choose(at + step); event.preventDefault(); }
      if (event.key === "Home") { choose(0); event.preventDefault(); }
      if (event.key === "End") { choose(-1); event.preventDefault(); }
    });
    for (const kind of ["pointerover", "click"]) {
      chart.addEventListener(kind, (event) => {
        const number = marks.indexOf(event.target.closest("[aria-label]"));
        if (number >= 0) choose(number);
      });
    }
  }
}
for (const field of document.querySelectorAll("input[data-filters]")) {
  field.hidden = false;
  field.addEventListener("input", () => {
    const wanted = field.value.toLowerCase();
    for (const row of document.getElementById(field.dataset.filters).tBodies[0].rows) {
      row.hidden = !row.textContent.toLowerCase().includes(wanted);
    }
  });
}
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.parentElement, body = head.closest("table").tBodies[0];
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const value = (row) => row.cells[head.cellIndex].dataset.value ?? row.cells[head.cellIndex].textContent;
    const order = (one, other) => value(one).localeCompare(value(other), "en", { numeric: true });
    body.append(...[...body.rows].sort((one, other) => (up ? 1 : -1) * order(one, other)));
  });
}
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  for (const one of closed) one.open = true;
});
addEventListener("afterprint", () => { for (const one of closed) one.open = false; });
