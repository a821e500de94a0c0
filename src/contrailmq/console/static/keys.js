// The keyboard: search over topics and groups, and one letter for what is done often.

import { get, groupPath, topicPath } from "./api.js";
import { h, replace } from "./dom.js";

const PLACES = { o: "/", t: "/topics", m: "/messages", g: "/groups", d: "/dead-letters", b: "/brokers", s: "/settings", w: "/waiting" };
const HELP = [
  ["/ or Ctrl-K", "search topics and groups"], ["f", "filter this list"], ["j k, arrows", "next, previous row"],
  ["Enter", "open the row"], ["Esc", "close"], ["r", "fetch again"], ["Space", "pause updates"],
  ["g o, g t, g m, g g, g d, g b", "overview, topics, messages, groups, dead letters, brokers"], ["?", "this list"],
];

export function startKeys() {
  let leader = false;
  document.getElementById("find").addEventListener("click", find);
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "k") { event.preventDefault(); return find(); }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, dialog")) return;
    if (leader && PLACES[event.key]) return location.assign(PLACES[event.key]);
    leader = event.key === "g";
    const act = ACTS[event.key];
    if (event.key === " " && event.target.closest("button, a, summary")) return;
    if (event.key === "Enter" && event.target.closest("a, button, summary")) return;
    if (act) { event.preventDefault(); act(); }
  });
}

const send = (name, detail) => document.dispatchEvent(new CustomEvent(name, { detail }));
const ACTS = {
  "/": find,
  f: () => document.querySelector("[data-filter]")?.focus(),
  j: () => send("contrail-move", 1),
  k: () => send("contrail-move", -1),
  ArrowDown: () => send("contrail-move", 1),
  ArrowUp: () => send("contrail-move", -1),
  Enter: () => send("contrail-open"),
  Escape: () => send("contrail-close"),
  r: () => send("contrail-refresh"),
  " ": () => send("contrail-pause"),
  "?": help,
};

function help() {
  const box = h("dialog", { "aria-label": "Keys" }, h("h2", {}, "Keys"),
    h(".keys-help", {}, HELP.map(([keys, text]) => [h("span", {}, h("kbd", {}, keys)), h("span", {}, text)])));
  box.addEventListener("close", () => box.remove());
  box.addEventListener("click", (event) => { if (event.target === box) box.close(); });
  document.body.append(box);
  box.showModal();
}

function find() {
  if (document.querySelector(".finder")) return;
  const input = h("input", { type: "search", placeholder: "Topic, group, or message id", "aria-label": "Search topics, groups and messages" });
  const hits = h("ul");
  const box = h("dialog", { class: "finder", "aria-label": "Search" }, input, hits);
  let chosen = 0, turn = 0;
  const links = () => [...hits.querySelectorAll("a")];
  const mark = () => links().forEach((link, n) => link.parentElement.classList.toggle("chosen", n === chosen));
  input.addEventListener("input", async () => {
    turn += 1;
    const mine = turn, words = input.value.trim();
    const found = words ? await get("/api/search", { q: words }).catch(() => ({ hits: [], total: 0 })) : { hits: [], total: 0 };
    if (mine !== turn) return;
    const rows = found.hits.map((hit) => row(hit.kind, hit.name, hit.kind === "topic" ? topicPath(hit.name) : groupPath(hit.name)));
    if (words) rows.push(row("key, id", `Find the message ${words}`, `/messages?key=${encodeURIComponent(words)}`));
    replace(hits, rows, found.total > found.hits.length ? h("li.quiet", {}, `and ${found.total - found.hits.length} more`) : null);
    chosen = 0;
    mark();
  });
  box.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) { event.preventDefault(); chosen = Math.min(Math.max(chosen + step, 0), links().length - 1); mark(); }
    if (event.key === "Enter" && links()[chosen]) { event.preventDefault(); location.assign(links()[chosen].href); }
  });
  box.addEventListener("close", () => box.remove());
  box.addEventListener("click", (event) => { if (event.target === box) box.close(); });
  document.body.append(box);
  box.showModal();
  input.focus();
}

function row(kind, name, path) {
  return h("li", {}, h("a", { href: path }, h("span.kind", {}, kind), h("span.name", {}, name)));
}
