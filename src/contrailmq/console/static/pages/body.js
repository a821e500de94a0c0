// A message, whole: body in every reading that fits, properties, readers, trace.

import { address, get, groupPath } from "../api.js";
import { append, h, replace } from "../dom.js";
import { bytes, count, moment } from "../format.js";
import { button, chip, copy, empty, faultBox, time } from "../ui.js";
import { sendDialog } from "./send.js";

const OWN = new Set(["KEYS", "TAGS", "UNIQ_KEY", "WAIT", "CLUSTER", "MSG_REGION", "TRACE_ON", "MIN_OFFSET", "MAX_OFFSET", "DELAY", "RETRY_TOPIC", "REAL_TOPIC", "REAL_QID", "ORIGIN_MESSAGE_ID", "DLQ_ORIGIN_TOPIC", "DLQ_ORIGIN_MESSAGE_ID", "RECONSUME_TIME", "MAX_RECONSUME_TIMES", "INNER_NUM", "__transactionId__", "PGROUP", "TRAN_MSG"]);

export const placeOf = (row) => ({ topic: row.topic, queue: `${row.broker}/${row.queue}`, offset: row.offset });

/** Shows the message of a row in `side`; gives a function that closes it. */
export async function showMessage(side, row, onclose) {
  replace(side, h("p.loading", {}, "Loading…"));
  let seen;
  try {
    seen = await get("/api/message", placeOf(row));
  } catch (error) { return replace(side, faultBox(error)); }
  const body = h("div"), trace = h("div");
  const own = Object.fromEntries(Object.entries(seen.properties).filter(([name]) => !OWN.has(name)));
  const text = seen.body.views.find((v) => v.kind === "text")?.text ?? "";
  replace(side,
    h(".bar", {}, h("h2.mono", {}, `${seen.broker}/${seen.queue}:${seen.offset}`), button("Close", onclose, { kind: "ghost" })),
    h(".bar", {},
      button("Edit and send", () => sendDialog({ topic: seen.properties.RETRY_TOPIC ?? seen.topic, body: text, tags: seen.tags, keys: seen.keys.join(" "), properties: own }), { write: true, disabled: !seen.body.views.some((v) => v.kind === "text"), title: "opens a form with this body" }),
      h("a", { class: "button", href: address("/api/raw", placeOf(row)), download: "message.bin" }, "Download"),
      button("Copy id", () => copy(seen.id))),
    h("section", {}, body),
    h("section", {}, h("h2", {}, "Message"), pairs([["Id", seen.id], ["Stored", moment(seen.stored)], ["Born", `${moment(seen.born)} on ${seen.bornHost}`], ["Broker", seen.storeHost], ["Tag", seen.tags || "–"], ["Keys", seen.keys.join(" ") || "–"], ["Retries", count(seen.retries)], ["In the log", `offset ${count(seen.logOffset)}, ${bytes(seen.recordSize)}`], ["Place id", seen.offsetId]])),
    h("section", {}, h("h2", {}, "Properties"), pairs(Object.entries(seen.properties))),
    h("section", {}, h("h2", {}, "Groups"), seen.readers.length ? pairs(seen.readers.map((r) => [h("a", { href: groupPath(r.group) }, r.group), r.passed ? chip("✓ passed", "good") : chip(`waiting, ${count(r.ahead)} before it`)])) : empty("No group has an offset in this queue")),
    h("section", {}, h("h2", {}, "Trace"), trace));
  drawBody(body, seen, row);
  drawTrace(trace, seen.id);
}

function pairs(rows) {
  return h("dl", {}, rows.map(([name, value]) => [h("dt", {}, name), h("dd.mono", {}, value)]));
}

function drawBody(box, seen, row) {
  const views = seen.body.views;
  const kept = localStorage.getItem(`contrail-view:${seen.topic}`);
  let chosen = views.find((v) => v.kind === kept) ?? views[0];
  const panel = h("div"), tabs = h(".tabs", { role: "group", "aria-label": "Reading" });
  const search = h("input", { type: "search", placeholder: "Find in body", "aria-label": "Find in body" });
  search.addEventListener("input", draw);
  function draw() {
    replace(tabs, views.map((v) => h("button", { type: "button", "aria-pressed": String(v === chosen), onclick: () => { chosen = v; localStorage.setItem(`contrail-view:${seen.topic}`, v.kind); draw(); } }, v.kind)));
    replace(panel, chosen.kind === "json" && !seen.body.cut ? tree(chosen.text, search.value) : h("pre", { class: `body ${chosen.kind === "hex" ? "hex" : ""}`, tabindex: 0 }, marked(chosen.text, search.value)));
  }
  const told = [bytes(seen.body.size), ...(seen.body.layers.length ? [`was ${seen.body.layers.join(", then ")}, ${bytes(seen.body.stored)} stored`] : [])].join(", ");
  replace(box, h("h2", {}, "Body ", h("span.quiet", {}, told)), h(".bar", {}, tabs, search), panel,
    seen.body.cut ? h("p.note", {}, `Shown: the first ${bytes(seen.body.shown)}. `, button("Load all", async () => { Object.assign(seen, await get("/api/message", { ...placeOf(row), size: 4194304 })); drawBody(box, seen, row); })) : null,
    button("Copy body", () => copy(chosen.text), { kind: "link" }));
  draw();
}

function marked(text, words) {
  if (!words) return text;
  const parts = [];
  const low = text.toLowerCase(), wanted = words.toLowerCase();
  let at = 0;
  for (let next = low.indexOf(wanted); next >= 0 && parts.length < 1000; next = low.indexOf(wanted, at)) {
    parts.push(text.slice(at, next), h("mark", {}, text.slice(next, next + wanted.length)));
    at = next + wanted.length;
  }
  parts.push(text.slice(at));
  return parts;
}

// Numbers are shown as they are written: JavaScript would round what is larger than 2^53.
class Exact { constructor(source) { this.source = source; } }

function tree(text, words) {
  const value = JSON.parse(text, (_, item, context) => (typeof item === "number" && context?.source ? new Exact(context.source) : item));
  const box = h("div", { class: "body tree", tabindex: 0 });
  append(box, [node(null, value, 0, words)]);
  return box;
}

function node(name, value, depth, words) {
  const label = name === null ? [] : [h("span.k", {}, marked(name, words)), ": "];
  if (value === null || typeof value !== "object" || value instanceof Exact) {
    const isText = typeof value === "string";
    const shown = value instanceof Exact ? value.source : JSON.stringify(value);
    return h(".leaf", {}, label, h(isText ? "span.s" : "span.n", {}, marked(shown, words)));
  }
  const isList = Array.isArray(value);
  const entries = Object.entries(value);
  const size = isList ? `[${entries.length}]` : `{${entries.length}}`;
  const open = depth < 2 || (words && JSON.stringify(value).toLowerCase().includes(words.toLowerCase()));
  const details = h("details", { open }, h("summary", {}, label, h("span.quiet", {}, size)));
  const fillIn = () => { if (details.children.length === 1) append(details, entries.slice(0, 1000).map(([k, v]) => node(isList ? String(k) : k, v, depth + 1, words))); };
  if (open) fillIn(); else details.addEventListener("toggle", fillIn, { once: true });
  return details;
}

export async function drawTrace(box, id) {
  let seen;
  try { seen = await get("/api/trace", { id }); } catch (error) { return replace(box, faultBox(error)); }
  if (seen.missing || !seen.steps.length) {
    return replace(box, empty("No trace", seen.missing
      ? "The cluster has no trace topic: tracing is off. Set traceTopicEnable=true at the brokers and trace_topic in clients."
      : "Clients of this message do not trace: set trace_topic in their settings, or send with contrail send --trace."));
  }
  const first = seen.steps[0].at;
  replace(box, h("ol", { class: "timeline" }, seen.steps.map((step) => h("li", { class: step.success === false ? "bad" : "" },
    h("div", {}, h("b", {}, step.event), " ", step.success === false ? chip("✕ failed", "bad") : null, " ", h("span.quiet", {}, `+${count(step.at - first)} ms`)),
    h(".quiet", {}, [step.group, step.place, step.detail, step.cost !== null ? `${step.cost} ms` : ""].filter(Boolean).join(" · "), " ", time(step.at))))));
}
