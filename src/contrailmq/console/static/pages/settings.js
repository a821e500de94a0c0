import { get } from "../api.js";
import { h, replace } from "../dom.js";
import { count } from "../format.js";
import { tabs } from "../list.js";
import { ask, button, chip, copyCommand, empty, faultBox, field, head, perform, query, table } from "../ui.js";

export async function render(main) {
  const top = h("div"), box = h("div"), picker = h("select", { "aria-label": "Broker" });
  const filter = h("input", { type: "search", class: "wide", placeholder: "Filter by key or meaning", "aria-label": "Filter", value: query.get("filter"), "data-filter": true });
  let seen = null;
  replace(main, top, h(".bar", {}, picker, tabs("kind", [["", "Can change now"], ["all", "All"]], draw), filter), box);
  replace(top, head("Settings"));
  filter.addEventListener("input", () => { query.set({ filter: filter.value }); draw(); });
  picker.addEventListener("change", () => { query.set({ address: picker.value }); load(); });

  async function change(row) {
    const fields = await ask(`Change ${row.key}`, h(".stack", {}, h("p", {}, row.doc), h("p.quiet", {}, `Now: ${row.value || "(empty)"}, at ${seen.broker}. It takes effect at once and is kept in the broker's file, where it has one.`), field("New value", h("input", { name: "value", value: row.value }))), { yes: "Change" });
    if (fields && await perform("setting", { address: seen.address, key: row.key, value: fields.value }, `${row.key} is ${fields.value} now`)) load();
  }
  function draw() {
    if (!seen) return;
    const words = query.get("filter").toLowerCase();
    const rows = seen.rows.filter((r) => (query.get("kind") === "all" || r.live) && (r.key + r.doc).toLowerCase().includes(words));
    replace(top, head("Settings", [h("span", {}, `${seen.broker} at ${seen.address}`), h("span", {}, `${count(rows.length)} of ${count(seen.rows.length)} keys`)], [copyCommand(`contrail admin getBrokerConfig -b ${seen.address}`)]));
    replace(box, rows.length ? table([
      { label: "Key", class: "name", cell: (r) => r.key },
      { label: "Value", class: "name", cell: (r) => r.value || h("span.quiet", {}, "empty") },
      { label: "Meaning", class: "p2", cell: (r) => h("span.quiet", {}, r.doc.replaceAll("`", "")) },
      { label: "", cell: (r) => (r.live ? button("Change", () => change(r), { kind: "link", write: true }) : chip("at start")) }], rows, { label: "Settings" }) : empty("No key matches"));
  }
  async function load() {
    try {
      const brokers = await get("/api/brokers");
      replace(picker, brokers.rows.map((b) => h("option", { value: b.address, selected: b.address === query.get("address") }, `${b.name} ${b.address}`)));
      seen = await get("/api/settings", { address: query.get("address") });
      draw();
    } catch (error) { replace(box, faultBox(error, load)); }
  }
  await load();
}
