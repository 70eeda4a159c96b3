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
  const output = figure.querySelector("output");
  for (const chart of figure.querySelectorAll(".chart")) {
    const marks = [...chart.querySelectorAll(".marks [aria-label]")];
    let at = -1;
    const choose = (number) => {
      if (!marks.length) return;
      if (at >= 0) marks[at].classList.remove("chosen");
      at = (number + marks.length) % marks.length;
      marks[at].classList.add("chosen");
      output.textContent = marks[at].getAttribute("aria-label");
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
const packets = JSON.parse(document.querySelector("#packets-data")?.textContent ?? "null"), packet = document.querySelector("#packet");
if (packets) {
  packet.querySelector("button").addEventListener("click", () => packet.close());
  document.addEventListener("click", (event) => {
    const id = event.target.closest("[data-event]")?.dataset.event;
    if (id === undefined) return;
    const fields = Object.hasOwn(packets.events, id) ? packets.events[id] : [];
    packet.querySelector("h2").textContent = id;
    packet.querySelector(".soft").hidden = fields.length > 0;
    packet.querySelector("dl").replaceChildren(...fields.map((place, at) => {
      const part = document.createElement(at % 2 ? "dd" : "dt");
      part.textContent = packets.texts[place];
      return part;
    }));
    packet.showModal();
  });
}
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  for (const one of closed) one.open = true;
});
addEventListener("afterprint", () => { for (const one of closed) one.open = false; });

const kept = document.querySelector("#states-data");
const states = kept ? JSON.parse(kept.textContent) : null;
// The rows of the tables at an instant, in microseconds, as positions in `states.rows`: intervals are half open.
function statesAt(at) {
  const covered = new Map(states.covered.filter(([, from, to]) => (from ?? -Infinity) <= at && at < (to ?? Infinity))
    .map(([name, , , isCovered, text]) => [name, [isCovered, states.texts[text]]]));
  const rows = states.rows.flatMap(([name, , , , , from, to], place) =>
    covered.get(name)?.[0] && from <= at && at < (to ?? Infinity) ? [place] : []);
  return { rows, texts: [...covered].map(([name, [, text]]) => `${states.texts[name]}: ${text}`) };
}
if (states) {
  const one = (name) => document.querySelector(`#${name}`), MOST = 250;
  const [first, end] = states.span;
  const text = (at) => new Date(Math.floor(at / 1000)).toISOString().replace("T", " ").replace("Z", "");
  const changes = [...new Set(states.rows.flatMap((row) => [row[5], row[6]]))].filter((at) => at >= first && at < end)
    .sort((a, b) => a - b);
  one("states").hidden = false;
  one("of-table").append(...["all", ...new Set(states.rows.map((row) => states.texts[row[1]]))].map((name) => new Option(name)));
  // It begins at the last instant of which most name servers are recorded: after it there would be nothing to see.
  const recorded = (at) => states.covered.filter(([, from, to, is]) => is && (from ?? -Infinity) <= at && at < (to ?? Infinity)).length;
  const [last = end - 1] = states.covered.map(([, , to]) => Math.min(to ?? end, end) - 1).filter((at) => at >= first)
    .sort((a, b) => recorded(b) - recorded(a) || b - a);
  for (const name of ["now", "then"]) Object.assign(one(name), { min: first, max: end - 1, value: name === "now" ? last : first });
  const show = () => {
    const now = Math.floor(one("now").value), then = Math.floor(one("then").value), compares = one("compare").checked;
    one("now-text").textContent = text(now); one("then-text").textContent = text(then); one("then-line").hidden = !compares;
    const found = statesAt(now), other = compares ? statesAt(then).rows : null, table = one("of-table").value;
    const before = new Set(other), after = new Set(found.rows), wanted = one("of-text").value.toLowerCase();
    const marked = compares ? [...other.filter((row) => !after.has(row)).map((row) => [row, "gone"]),
      ...found.rows.filter((row) => !before.has(row)).map((row) => [row, "new"])].sort((a, b) => a[0] - b[0])
      : found.rows.map((row) => [row, ""]);
    const shown = marked.filter(([row]) => {
      const cells = states.rows[row].slice(0, 5).map((place) => states.texts[place]);
      return (table === "all" || cells[1] === table) && cells.join(" ").toLowerCase().includes(wanted);
    });
    one("states-said").textContent = `${compares ? `${shown.length} rows differ: − then, + now.` : `${shown.length} rows.`} ${
      shown.length > MOST ? `The first ${MOST} are shown. ` : ""}${found.texts.join("; ")}`;
    const names = ["Name server", "Table", "Key", "Value", "Opened by"];
    one("states-rows").tBodies[0].replaceChildren(...shown.slice(0, MOST).map(([row, kind]) => {
      const line = document.createElement("tr");
      line.className = kind;
      line.append(...states.rows[row].slice(0, 5).map((place, column) => {
        const cell = document.createElement("td"), isolated = document.createElement(column === 4 ? "button" : "bdi");
        if (column === 4) Object.assign(isolated, { type: "button", className: "event-id" }).dataset.event = states.texts[place];
        cell.dataset.name = names[column];
        cell.className = column < 2 ? "address" : "";
        isolated.textContent = (column ? "" : { gone: "− ", new: "+ " }[kind] ?? "") + states.texts[place];
        cell.append(isolated);
        return cell;
      }));
      return line;
    }));
  };
  for (const name of ["now", "then", "compare", "of-table", "of-text"]) one(name).addEventListener("input", show);
  for (const button of document.querySelectorAll("[data-step]")) {
    button.addEventListener("click", () => {
      const now = Math.floor(one("now").value), forward = button.dataset.step === "1";
      const to = forward ? changes.find((at) => at > now) : changes.filter((at) => at < now).pop();
      if (to !== undefined) { one("now").value = to; show(); }
    });
  }
  show();
}
