import { address, get } from "../api.js";
import { h, replace } from "../dom.js";
import { bytes, clock, count, moment } from "../format.js";
import { button, copyCommand, copyLink, empty, faultBox, field, head, query } from "../ui.js";
import { showMessage } from "./body.js";
import { sendDialog } from "./send.js";

const FIELDS = ["topic", "queue", "from", "to", "offset", "tag", "sql", "text", "key", "order"];
const KEPT = 2000;

export async function render(main) {
  const inputs = {}, rows = h("tbody"), foot = h(".bar"), side = h("aside.side", { hidden: true, "aria-label": "Message" });
  const trouble = h("div"), live = h("span.quiet", { role: "status" });
  const grid = h("table", { class: "messages", "aria-label": "Messages" }, h("thead", {}, h("tr", {}, [["Stored", ""], ["Queue:offset", ""], ["Tag", "p2"], ["Keys", "p3"], ["Size", "num p2"], ["Body", ""]].map(([label, cls]) => h("th", { scope: "col", class: cls }, label)))), rows);
  const split = h(".split", {}, h("div", {}, h(".scroll", {}, grid), foot), side);
  let found = [], cursor = "", chosen = -1, stream = null, search = null, skipped = 0, came = [];

  const text = (name, label, placeholder, extra = {}) => {
    inputs[name] = h("input", { placeholder, value: query.get(name), "data-filter": name === "topic", ...extra });
    const made = field(label, inputs[name]);
    if (name === "topic") made.classList.add("wide");
    return made;
  };
  const names = h("datalist", { id: "topic-names" });
  inputs.order = h("select", {}, [["", "newest first"], ["old", "oldest first"]].map(([v, t]) => h("option", { value: v, selected: v === query.get("order") }, t)));
  const go = h("button", { class: "primary", type: "submit" }, "Search");
  const stop = button("Stop", () => { search?.abort(); stopLive(); }, { hidden: true });
  const liveButton = button("Live", () => (stream ? stopLive() : startLive()), { "aria-pressed": "false" });
  const more = h("details", { open: ["to", "offset", "sql", "text", "order"].some((n) => query.get(n)) }, h("summary.quiet", {}, "More filters"),
    h(".filters", {}, text("to", "To", "now"), text("offset", "Offset", "from this one on"), text("sql", "SQL92", "amount > 900"), text("text", "Text in body or properties", "refund"), field("Order", inputs.order)));
  const form = h("form", {}, h(".filters", {}, text("topic", "Topic", "orders", { list: "topic-names", required: true, autocomplete: "off" }), text("from", "From", "-15m, 10:05, ISO"), text("queue", "Queue", "broker-a/0"), text("tag", "Tag", "paid || refunded"), text("key", "Key or id", "order-17"), go, stop, liveButton, live), more, names);
  form.addEventListener("submit", (event) => { event.preventDefault(); stopLive(); run(); });
  inputs.topic.addEventListener("input", async () => {
    const hits = await get("/api/search", { q: inputs.topic.value }).catch(() => ({ hits: [] }));
    replace(names, hits.hits.filter((hit) => hit.kind === "topic").map((hit) => h("option", { value: hit.name })));
  });
  replace(main, head("Messages", [h("span", {}, "Read without a group: nobody misses a message because you look.")], [button("Send", () => sendDialog({ topic: inputs.topic.value }), { write: true }), copyLink(), copyCommand(command())]), form, trouble, split);

  function command() { return `contrail tail '${query.get("topic") || "TOPIC"}'${query.get("from") ? ` --from '${query.get("from")}'` : ""}`; }
  function values() { return Object.fromEntries(FIELDS.map((name) => [name, inputs[name].value.trim()])); }

  async function run(further = false) {
    const wanted = values();
    query.set(wanted);
    search?.abort();
    const mine = search = new AbortController();
    stop.hidden = false;
    replace(trouble);
    if (!further) { found = []; cursor = ""; replace(rows, h("tr", {}, h("td", { colspan: 6 }, h("span.loading", {}, "Searching…")))); }
    try {
      const page = await get("/api/messages", { ...wanted, from: moments(wanted.from), to: moments(wanted.to), cursor }, mine.signal);
      found = found.concat(page.rows).slice(-KEPT);
      cursor = page.cursor;
      draw();
      replace(foot, h("span.quiet", {}, `${count(found.length)} shown; scanned ${count(page.scanned)} of ${count(page.total)}${page.cut ? ": the budget of this search is spent" : ""}`), cursor ? button("Go on", () => run(true)) : h("span.quiet", {}, "That is all."));
    } catch (error) {
      if (error.name === "AbortError") replace(foot, h("span.quiet", {}, "Stopped."));
      else { replace(trouble, faultBox(error, () => run())); replace(rows); }
    } finally { if (mine === search) stop.hidden = !stream; }
  }

  function draw() {
    if (!found.length) return replace(rows, h("tr", {}, h("td", { colspan: 6 }, stream ? empty("Waiting for messages…", "What is sent from now on appears here.") : empty("No message matches", "Widen the time, or take away a filter. Messages older than the retention of the broker are gone."))));
    replace(rows, found.map((row, index) => h("tr.row", { tabindex: 0, "aria-selected": index === chosen ? "true" : null, onclick: () => open(index), onkeydown: (event) => { if (event.key === "Enter") open(index); } },
      h("td.nowrap", { title: moment(row.stored) }, clock(row.stored, true)), h("td", { class: "name nowrap" }, `${row.queue}:${row.offset}`),
      h("td", { class: "p2 clip" }, row.tags), h("td", { class: "p3 clip name" }, row.keys.join(" ")), h("td", { class: "num p2 nowrap" }, bytes(row.size)), h("td.preview", {}, row.line))));
  }

  function open(index) {
    chosen = index;
    side.hidden = false;
    split.classList.add("open");
    rows.querySelectorAll("tr").forEach((row, n) => { if (n === index) row.setAttribute("aria-selected", "true"); else row.removeAttribute("aria-selected"); });
    const row = found[index];
    query.set({ at: `${row.broker}/${row.queue}:${row.offset}` });
    showMessage(side, row, close);
  }
  function close() { chosen = -1; side.hidden = true; split.classList.remove("open"); query.set({ at: "" }); draw(); }
  document.addEventListener("contrail-move", (event) => { if (found.length) open(Math.min(Math.max(chosen + event.detail, 0), found.length - 1)); });
  document.addEventListener("contrail-close", close);

  function startLive() {
    query.set({ ...values(), live: "1" });
    found = []; cursor = ""; skipped = 0; came = [];
    replace(foot);
    replace(trouble);
    const wanted = values();
    stream = new EventSource(address("/api/tail", { topic: wanted.topic, queue: wanted.queue, tag: wanted.tag, sql: wanted.sql, text: wanted.text }));
    liveButton.setAttribute("aria-pressed", "true");
    live.className = "chip accent pulse";
    stop.hidden = false;
    stream.addEventListener("rows", (event) => {
      const frame = JSON.parse(event.data);
      skipped += frame.skipped;
      came.push([Date.now(), frame.rows.length + frame.skipped]);
      came = came.filter(([at]) => at > Date.now() - 5000);
      found = frame.rows.reverse().concat(found).slice(0, KEPT);
      if (chosen >= 0) chosen += frame.rows.length;
      if (scrollY < 400 && !document.hidden) draw();
      tell();
    });
    stream.addEventListener("fault", (event) => { replace(trouble, faultBox(new Error(JSON.parse(event.data).error), startLive)); stopLive(); });
    stream.addEventListener("over", () => { stopLive(); replace(foot, h("span.quiet", {}, "The live view ended after 15 minutes."), button("Go on", startLive)); });
    stream.addEventListener("error", () => { if (stream?.readyState === EventSource.CLOSED) { replace(trouble, faultBox(new Error("The live view was refused or ended."), startLive)); stopLive(); } });
    tell();
    draw();
  }
  function tell() {
    const perSecond = came.reduce((sum, [, n]) => sum + n, 0) / 5;
    live.textContent = `live: ${perSecond.toFixed(0)}/s, showing ${count(found.length)}, skipped ${count(skipped)}`;
  }
  function stopLive() {
    stream?.close();
    stream = null;
    liveButton.setAttribute("aria-pressed", "false");
    live.className = "quiet";
    live.textContent = "";
    query.set({ live: "" });
    stop.hidden = true;
  }
  document.addEventListener("contrail-refresh", () => { if (!stream && query.get("topic") && chosen < 0) run(); });
  document.addEventListener("contrail-pause", () => stream && stopLive());

  if (query.get("topic") && query.get("live")) startLive();
  else if (query.get("topic")) {
    const wanted = query.get("at");
    await run();
    const index = found.findIndex((row) => `${row.broker}/${row.queue}:${row.offset}` === wanted);
    if (index >= 0) open(index);
    else if (wanted) { found.unshift(placed(wanted)); open(0); }
  } else replace(rows, h("tr", {}, h("td", { colspan: 6 }, empty("Choose a topic", "Messages come newest first. Filter by time, queue, tag, SQL or text, or find one by its key or id."))));
}

function placed(text) {
  const [, broker, queue, offset] = text.match(/^(.*)\/(\d+):(\d+)$/) ?? [];
  return { topic: query.get("topic"), broker, queue: Number(queue), offset: Number(offset), tags: "", keys: [], size: 0, stored: 0, line: "" };
}

// "10:05" is today, in the zone that the page shows; the rest the server reads.
function moments(text) {
  const today = text.match(/^(\d{1,2}):(\d{2})(?::(\d{2}))?$/);
  if (!today) return text;
  const d = new Date();
  if (localStorage.getItem("contrail-zone") === "utc") d.setUTCHours(today[1], today[2], today[3] ?? 0, 0);
  else d.setHours(today[1], today[2], today[3] ?? 0, 0);
  return String(d.getTime());
}
