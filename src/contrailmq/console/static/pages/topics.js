import { get, topicPath } from "../api.js";
import { spark } from "../chart.js";
import { h, replace } from "../dom.js";
import { count, rate } from "../format.js";
import { filterField, tabs, virtualList } from "../list.js";
import { ask, button, chip, empty, faultBox, faults, field, head, perform, poll, query, time } from "../ui.js";

export const KINDS = { normal: "", fifo: "accent", delay: "accent", transaction: "accent", retry: "", dlq: "warn", system: "" };

export async function createTopic(preset = {}) {
  const kinds = ["", "NORMAL", "FIFO", "DELAY", "TRANSACTION"];
  const isNew = !preset.topic;
  const fields = await ask(isNew ? "Create a topic" : `Change ${preset.topic}`, h(".stack", {},
    h("p.quiet", {}, "On every master of the cluster."),
    field("Name", h("input", { name: "topic", required: true, value: preset.topic ?? "", readonly: !isNew, title: "letters, digits, % | _ -" })),
    field("Queues per broker", h("input", { name: "queues", type: "number", min: 1, max: 1024, value: preset.queues ?? 8 })),
    field("Permission", h("select", { name: "perm" }, [[6, "read and write"], [4, "read only"], [2, "write only"]].map(([v, t]) => h("option", { value: v, selected: v === preset.perm }, t)))),
    isNew ? field("Message type (5.x)", h("select", { name: "kind" }, kinds.map((k) => h("option", { value: k }, k || "any")))) : null), { yes: isNew ? "Create" : "Change" });
  if (!fields) return;
  const order = { topic: fields.topic, queues: Number(fields.queues), perm: Number(fields.perm), kind: fields.kind ?? "" };
  const done = await perform("topic-put", order, `${fields.topic} is ${isNew ? "there" : "changed"}`);
  if (done && isNew) location.assign(topicPath(fields.topic));
}

export async function render(main) {
  const top = h("div"), trouble = h("div");
  const list = virtualList({
    label: "Topics", href: (row) => topicPath(row.name),
    columns: [
      { label: "Topic", class: "name", sort: "name", cell: (t) => h("a", { href: topicPath(t.name), title: t.name }, t.name) },
      { label: "Kind", class: "p2", sort: "kind", cell: (t) => chip(t.kind, KINDS[t.kind] ?? "") },
      { label: "Queues", class: "num p2", sort: "queues", cell: (t) => count(t.queues) },
      { label: "Messages", class: "num", sort: "messages", cell: (t) => count(t.messages) },
      { label: "Per second", class: "num p2", sort: "rate", cell: (t) => rate(t.rate) },
      { label: "", class: "p3", cell: (t) => spark(t.trend) },
      { label: "Last message", class: "p3", sort: "last", cell: (t) => (t.last === null ? "–" : time(t.last)) },
      { label: "Groups", class: "num p2", sort: "groups", cell: (t) => count(t.groups) },
      { label: "Worst lag", class: "num", sort: "lag", cell: (t) => (t.groups ? count(t.lag) : "") },
    ],
    load: (window) => get("/api/topics", { ...window, filter: query.get("filter"), kind: query.get("kind") }),
    onLoad: (found) => {
      replace(top, head("Topics", [h("span", {}, `${count(found.total)} shown of ${count(found.all)}`), h("span", {}, "updated ", time(found.at))], [button("Create topic", () => createTopic(), { kind: "primary", write: true })]));
      replace(trouble, faults(found.faults));
    },
    nothing: () => (query.get("filter")
      ? empty("No topic matches", `No name has “${query.get("filter")}”. The tabs above choose the kind.`)
      : empty("No topics of this kind yet", "Sending creates one, where brokers allow it: ", h("code", {}, "contrail send orders 'order 1'"))),
  });
  replace(main, top, h(".bar", {}, tabs("kind", [["", "Yours"], ["retry", "Retry"], ["dlq", "Dead letters"], ["system", "System"], ["all", "All"]], () => list.reset()), filterField(list, "Filter by name")), trouble, list.element);
  replace(top, head("Topics"));
  poll(() => list.refresh(), 3, (error, retry) => replace(trouble, faultBox(error, retry)));
}
