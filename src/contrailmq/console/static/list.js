// A list of any length: only the rows on screen exist, in windows that the server sorts and filters.

import { h, replace } from "./dom.js";
import { count } from "./format.js";
import { empty, faultBox, query } from "./ui.js";

const WINDOW = 100, SPARE = 8;

/** columns: {key, label, class, sort, cell(row)}; load({offset, limit, sort, …}) → {total, rows} */
export function virtualList({ columns, load, href, label, onLoad = () => {}, nothing }) {
  const rowHeight = () => (matchMedia("(max-width: 760px)").matches ? 40 : 28);
  const body = h("tbody");
  const headRow = h("tr");
  const grid = h("table", { "aria-label": label }, h("thead", {}, headRow), body);
  const box = h(".vlist", { tabindex: 0, role: "region", "aria-label": label }, grid);
  const foot = h(".quiet", { role: "status" });
  const element = h("div", {}, box, foot);
  let windows = new Map(), total = 0, chosen = -1, turn = 0;

  function heads() {
    const sort = query.get("sort");
    replace(headRow, columns.map((c) => {
      if (!c.sort) return h("th", { scope: "col", class: c.class ?? "" }, c.label);
      const down = sort === "-" + c.sort, up = sort === c.sort;
      const next = c.class?.includes("num") ? (down ? c.sort : "-" + c.sort) : (up ? "-" + c.sort : c.sort);
      return h("th", { scope: "col", class: c.class ?? "", "aria-sort": down ? "descending" : up ? "ascending" : null },
        h("button", { type: "button", onclick: () => { query.set({ sort: next }); reset(); } }, c.label + (down ? " ↓" : up ? " ↑" : "")));
    }));
  }

  async function fetchWindow(number) {
    const mine = turn;
    const found = await load({ offset: number * WINDOW, limit: WINDOW, sort: query.get("sort") });
    if (mine !== turn) return;
    windows.set(number, found.rows);
    total = found.total;
    onLoad(found);
  }

  function span() {
    const first = Math.max(Math.floor(box.scrollTop / rowHeight()) - SPARE, 0);
    const rows = Math.ceil((box.clientHeight || 600) / rowHeight()) + 2 * SPARE;
    return [first, Math.min(first + rows, Math.max(total, 1))];
  }

  async function show() {
    const [first, last] = span();
    const wanted = [];
    for (let n = Math.floor(first / WINDOW); n <= Math.floor((last - 1) / WINDOW); n += 1) if (!windows.has(n)) wanted.push(n);
    paint();
    if (!wanted.length) return;
    await Promise.all(wanted.map(fetchWindow));
    paint();
  }

  function paint() {
    if (!total) {
      foot.textContent = "";
      if (windows.size) replace(body, h("tr", {}, h("td", { colspan: columns.length }, nothing?.() ?? empty("Nothing here"))));
      return;
    }
    const [first, last] = span();
    const kept = document.activeElement?.closest?.("tr")?.dataset.index;
    const rows = [pad(first * rowHeight())];
    for (let n = first; n < Math.min(last, total); n += 1) {
      const row = windows.get(Math.floor(n / WINDOW))?.[n % WINDOW];
      rows.push(h("tr.row", { "data-index": n, "aria-rowindex": n + 2, "aria-selected": n === chosen ? "true" : null },
        columns.map((c) => h("td", { class: c.class ?? "" }, row ? c.cell(row) : " "))));
    }
    rows.push(pad((total - Math.min(last, total)) * rowHeight()));
    replace(body, rows);
    grid.setAttribute("aria-rowcount", total + 1);
    foot.textContent = `${count(total)} in all`;
    if (kept !== undefined) body.querySelector(`tr[data-index="${kept}"] a`)?.focus({ preventScroll: true });
  }

  function pad(height) {
    const cell = h("td", { colspan: columns.length });
    cell.style.height = height + "px";
    return h("tr.pad", { "aria-hidden": "true" }, cell);
  }

  async function reset() {
    turn += 1;
    windows = new Map();
    chosen = -1;
    heads();
    box.scrollTop = 0;
    await refresh();
  }

  async function refresh() {
    const [first, last] = span();
    const numbers = new Set();
    for (let n = Math.floor(first / WINDOW); n <= Math.floor((last - 1) / WINDOW); n += 1) numbers.add(n);
    await Promise.all([...numbers].map(fetchWindow));
    paint();
  }

  let waiting = false;
  box.addEventListener("scroll", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; show().catch((error) => replace(foot, faultBox(error))); });
  });
  document.addEventListener("contrail-move", (event) => {
    chosen = Math.min(Math.max(chosen + event.detail, 0), total - 1);
    const y = chosen * rowHeight();
    if (y < box.scrollTop) box.scrollTop = y;
    if (y > box.scrollTop + box.clientHeight - 3 * rowHeight()) box.scrollTop = y - box.clientHeight + 3 * rowHeight();
    paint();
  });
  document.addEventListener("contrail-open", () => {
    const row = windows.get(Math.floor(chosen / WINDOW))?.[chosen % WINDOW];
    if (row) location.assign(href(row));
  });
  heads();
  return { element, reset, refresh };
}

/** The field that filters a list, kept in the query string. */
export function filterField(list, placeholder) {
  let timer = 0;
  const input = h("input", { type: "search", class: "wide", placeholder, "aria-label": placeholder, value: query.get("filter"), "data-filter": true });
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => { query.set({ filter: input.value }); list.reset(); }, 150);
  });
  return input;
}

/** Buttons of which one is chosen, kept in the query string. */
export function tabs(name, choices, onchange) {
  const bar = h(".tabs", { role: "group", "aria-label": name });
  function draw() {
    replace(bar, choices.map(([value, label]) => h("button", {
      type: "button", "aria-pressed": String(query.get(name) === value),
      onclick: () => { query.set({ [name]: value }); draw(); onchange(); },
    }, label)));
  }
  draw();
  return bar;
}
