import { get, groupPath } from "../api.js";
import { spark } from "../chart.js";
import { h, replace } from "../dom.js";
import { count } from "../format.js";
import { filterField, tabs, virtualList } from "../list.js";
import { ask, button, chip, empty, faultBox, faults, field, head, perform, poll, query, time } from "../ui.js";

export const STATES = { even: ["✓ even", "good"], behind: ["▲ behind", ""], stuck: ["■ stuck", "warn"], never: ["– never read", ""] };
export const stateChip = (state) => chip(...(STATES[state] ?? [state, ""]));

async function createGroup() {
  const fields = await ask("Create a group", h(".stack", {}, h("p.quiet", {}, "On every master of the cluster."),
    field("Name", h("input", { name: "group", required: true })),
    field("Attempts before a message is a dead letter", h("input", { name: "retries", type: "number", min: 0, max: 1000, value: 16 }))), { yes: "Create" });
  if (fields && await perform("group-put", { group: fields.group, retries: Number(fields.retries) }, `${fields.group} is there`)) location.assign(groupPath(fields.group));
}

export async function render(main) {
  const top = h("div"), trouble = h("div");
  const list = virtualList({
    label: "Groups", href: (row) => groupPath(row.name),
    columns: [
      { label: "Group", class: "name", sort: "name", cell: (g) => h("a", { href: groupPath(g.name), title: g.name }, g.name) },
      { label: "State", sort: "state", cell: (g) => stateChip(g.state) },
      { label: "Topics", class: "num p2", sort: "topics", cell: (g) => count(g.topics) },
      { label: "Lag", class: "num", sort: "lag", cell: (g) => count(g.lag) },
      { label: "", class: "p3", cell: (g) => spark(g.trend) },
      { label: "Retries waiting", class: "num p2", sort: "retry", cell: (g) => count(g.retry) },
      { label: "Dead letters", class: "num p2", sort: "dead", cell: (g) => (g.dead ? h("a", { href: `/dead-letters?group=${encodeURIComponent(g.name)}` }, count(g.dead)) : count(g.dead)) },
    ],
    load: (window) => get("/api/groups", { ...window, filter: query.get("filter"), kind: query.get("kind") }),
    onLoad: (found) => {
      replace(top, head("Groups", [h("span", {}, `${count(found.total)} groups`), h("span", {}, "updated ", time(found.at))], [button("Create group", createGroup, { kind: "primary", write: true })]));
      replace(trouble, faults(found.faults));
    },
    nothing: () => (query.get("filter") || query.get("kind") ? empty("No group matches", "Take away the filter, or choose another state.") : empty("No groups yet", "A group appears when its first consumer connects: ", h("code", {}, "contrail consume orders -g billing"))),
  });
  replace(main, top, h(".bar", {}, tabs("kind", [["", "All"], ["stuck", "Stuck"], ["behind", "Behind"], ["even", "Even"], ["never", "Never read"]], () => list.reset()), filterField(list, "Filter by name")), trouble, list.element);
  replace(top, head("Groups"));
  poll(() => list.refresh(), 3, (error, retry) => replace(trouble, faultBox(error, retry)));
}
