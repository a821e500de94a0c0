import { get, groupPath } from "../api.js";
import { chart } from "../chart.js";
import { h, replace } from "../dom.js";
import { count, percent, rate } from "../format.js";
import { ask, button, chip, copyCommand, empty, faultBox, figure, head, perform, poll, table, time } from "../ui.js";
import { sendDialog } from "./send.js";
import { KINDS, createTopic } from "./topics.js";

export async function render(main, name) {
  const top = h("div"), figures = h(".figures"), queues = h("div"), groups = h("div"), config = h("div");
  const flow = chart("Messages per second", [{ label: "in" }], { format: rate });
  replace(main, top, figures,
    h(".two", {}, h("section", {}, h("h2", {}, "Messages per second"), flow.element), h("section", {}, h("h2", {}, "Groups that read it"), groups)),
    h("section", {}, h("h2", {}, "Queues"), queues), h("section", {}, h("h2", {}, "Settings"), config));
  replace(top, head(name));
  let seen = null;

  async function remove() {
    const behind = seen.group_rows.filter((g) => g.lag).length;
    const sure = await ask(`Delete ${name}`, h(".stack", {},
      h("p", {}, `${count(seen.messages)} messages in ${seen.queues} queues can no longer be read. ${seen.group_rows.length} groups have offsets here, ${behind} of them have not read everything.`),
      h("p.quiet", {}, "Producers that still send create it again where brokers allow that.")), { yes: "Delete topic", danger: true, name });
    if (sure && await perform("topic-delete", { topic: name, confirm: sure.confirm }, `${name} is deleted`)) location.assign("/topics");
  }

  poll(async () => {
    seen = await get(`/api/topics/${encodeURIComponent(name)}`);
    const first = Object.values(seen.configs)[0];
    replace(top, head(name, [chip(seen.kind, KINDS[seen.kind] ?? ""), h("span", {}, seen.perm), h("span", {}, `on ${seen.brokers.join(", ")}`), h("span", {}, "updated ", time(seen.at))], [
      h("a", { class: "button", href: `/messages?topic=${encodeURIComponent(name)}` }, "Messages"),
      h("a", { class: "button", href: `/messages?topic=${encodeURIComponent(name)}&live=1` }, "Live"),
      button("Send", () => sendDialog({ topic: name }), { write: true }),
      button("Change", () => createTopic({ topic: name, queues: first.writeQueues, perm: first.perm }), { write: true }),
      copyCommand(`contrail topic show '${name}'`),
      button("Delete", remove, { kind: "danger", write: true })]));
    replace(figures, figure("messages", count(seen.messages)), figure("per second", rate(seen.rate)), figure("queues", count(seen.queues)),
      figure("groups", count(seen.groups)), figure("worst lag", seen.groups ? count(seen.lag) : "–"), h(".figure", {}, h("b", {}, time(seen.last)), h("span", {}, "last message")));
    flow.draw([seen.series.rate]);
    replace(queues, seen.queue_rows.length ? table([
      { label: "Broker", class: "name p2", cell: (q) => q.broker },
      { label: "Queue", class: "num", cell: (q) => h("a", { href: `/messages?topic=${encodeURIComponent(name)}&queue=${encodeURIComponent(`${q.broker}/${q.queue}`)}` }, q.queue) },
      { label: "From offset", class: "num p2", cell: (q) => count(q.low) },
      { label: "To offset", class: "num", cell: (q) => count(q.high) },
      { label: "Messages", class: "num", cell: (q) => count(q.high - q.low) },
      { label: "Share", class: "", cell: (q) => share(q.share) },
      { label: "Last message", class: "p2", cell: (q) => time(q.last) }], seen.queue_rows, { label: "Queues" }) : empty("No broker told its queues", "They may not be readable for this account."));
    replace(groups, seen.group_rows.length ? table([
      { label: "Group", class: "name", cell: (g) => h("a", { href: groupPath(g.name) }, g.name) },
      { label: "State", cell: (g) => (g.stuck ? chip("■ stuck", "warn") : g.lag ? chip("▲ behind") : chip("✓ even", "good")) },
      { label: "Lag", class: "num", cell: (g) => count(g.lag) }], seen.group_rows, { label: "Groups" }) : empty("No group has read it", "A group appears with its first commit: ", h("code", {}, `contrail consume ${name} -g my-group`)));
    replace(config, table([
      { label: "Broker", class: "name", cell: ([broker]) => broker },
      { label: "Read queues", class: "num", cell: ([, c]) => c.readQueues },
      { label: "Write queues", class: "num", cell: ([, c]) => c.writeQueues },
      { label: "Permission", cell: ([, c]) => ({ 6: "read, write", 4: "read only", 2: "write only" }[c.perm & 6] ?? "closed") },
      { label: "Ordered", class: "p2", cell: ([, c]) => (c.order ? "yes" : "no") },
      { label: "Attributes", class: "name", cell: ([, c]) => Object.entries(c.attributes).map((pair) => pair.join("=")).join(", ") || "–" }], Object.entries(seen.configs), { label: "Settings per broker" }));
  }, 2, (error, retry) => replace(top, head(name), faultBox(error, retry)));
}

function share(part) {
  const bar = h("i");
  bar.style.width = part * 100 + "%";
  return h("span", {}, h(".meter", { title: percent(part) }, bar));
}
