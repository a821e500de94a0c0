// Send a message: as typed, or again as it was.

import { h } from "../dom.js";
import { act } from "../api.js";
import { ask, field, note } from "../ui.js";

export async function sendDialog(preset = {}) {
  const properties = Object.entries(preset.properties ?? {}).map((pair) => pair.join("=")).join("\n");
  const fields = await ask("Send a message", h(".stack", {},
    field("Topic", h("input", { name: "topic", required: true, value: preset.topic ?? "" })),
    field("Body (UTF-8)", h("textarea", { name: "body", rows: 8, value: preset.body ?? "" })),
    h(".two", {}, field("Tag", h("input", { name: "tags", value: preset.tags ?? "" })), field("Keys, with spaces between", h("input", { name: "keys", value: preset.keys ?? "" }))),
    field("Properties, name=value per line", h("textarea", { name: "properties", rows: 2, value: properties })),
    h(".two", {}, field("Deliver after, seconds (5.x)", h("input", { name: "delay", type: "number", min: 0, value: "" })), field("Sharding key", h("input", { name: "sharding" })))), { yes: "Send" });
  if (!fields) return;
  const pairs = fields.properties.split("\n").map((line) => line.split("=")).filter(([name]) => name.trim());
  const order = {
    topic: fields.topic, body: fields.body, tags: fields.tags, keys: fields.keys, delay_s: Number(fields.delay || 0), sharding_key: fields.sharding,
    properties: Object.fromEntries(pairs.map(([name, ...value]) => [name.trim(), value.join("=")])),
  };
  try {
    const sent = await act("send", order);
    note(`Stored in ${sent.queue} at ${sent.offset}: ${sent.id}`);
    document.dispatchEvent(new Event("contrail-refresh"));
  } catch (error) { note(error.message); }
}
