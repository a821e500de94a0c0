import { get, topicPath } from "../api.js";
import { chart } from "../chart.js";
import { h, replace } from "../dom.js";
import { count, moment, rate, short } from "../format.js";
import { ask, button, chip, copyCommand, empty, faultBox, field, figure, head, perform, poll, table, time } from "../ui.js";
import { stateChip } from "./groups.js";

export async function render(main, name) {
  const path = `/api/groups/${encodeURIComponent(name)}`;
  const top = h("div"), figures = h(".figures"), queues = h("div"), members = h("div"), subs = h("div"), inside = h("div");
  const lag = chart("Lag over time", [{ label: "lag" }], { format: short });
  replace(main, top, figures, h(".two", {}, h("section", {}, h("h2", {}, "Lag"), lag.element), h("section", {}, h("h2", {}, "Subscriptions"), subs)),
    h("section", {}, h("h2", {}, "Queues ", h("span.quiet", {}, "bar: from the oldest message to the newest; tick: committed")), queues), h("section", {}, h("h2", {}, "Members"), members, inside));
  replace(top, head(name));
  let seen = null;

  const topics = () => [...new Set(seen.queues.map((q) => q.topic))].concat(seen.subscriptions.map((s) => s.topic)).filter((t, n, all) => !t.startsWith("%RETRY%") && all.indexOf(t) === n);
  const topicChoice = () => h("select", { name: "topic" }, topics().map((t) => h("option", { value: t }, t)));

  async function reset() {
    if (!topics().length) return ask("Nothing to reset", h("p", {}, "The group has no offset and no subscription yet."), { yes: "Close" });
    const choice = await ask(`Reset ${name}`, h(".stack", {}, field("Topic", topicChoice()),
      field("Go on from", h("input", { name: "to", value: "-15m", list: "reset-to", required: true })),
      h("datalist", { id: "reset-to" }, ["first", "last", "-15m", "-1h", "-1d"].map((v) => h("option", { value: v }))),
      h("p.quiet", {}, "first, last, a span ago (-15m), a local time (2026-11-15 10:30) or milliseconds. The next step shows what it does.")), { yes: "Preview" });
    if (choice) await preview(choice.topic, choice.to);
  }
  async function skip() {
    const choice = await ask(`Skip what ${name} has not read`, h(".stack", {}, field("Topic", topicChoice())), { yes: "Preview" });
    if (choice) await preview(choice.topic, "last");
  }
  async function preview(topic, to) {
    let plan;
    try { plan = await get(`${path}/reset`, { topic, to }); } catch (error) { return ask("Not possible", faultBox(error), { yes: "Close" }); }
    const delta = plan.rows.reduce((sum, r) => sum + (r.before === null ? 0 : r.after - r.before), 0);
    const told = delta > 0 ? `${count(delta)} messages are skipped and will not be consumed.` : delta < 0 ? `${count(-delta)} messages will be consumed again.` : "No offset changes.";
    const sure = await ask(`Reset ${name} in ${topic}`, h(".stack", {}, h("p", {}, told + (seen.members.length ? ` ${seen.members.length} connected members go on from there.` : " No member is connected.")),
      h(".tablebox", {}, table([
        { label: "Queue", class: "name", cell: (r) => `${r.broker}/${r.queue}` }, { label: "Now", class: "num", cell: (r) => (r.before === null ? "none" : count(r.before)) },
        { label: "After", class: "num", cell: (r) => count(r.after) }, { label: "Change", class: "num", cell: (r) => (r.before === null ? "–" : (r.after > r.before ? "+" : "") + count(r.after - r.before)) }], plan.rows, { label: "Preview" }))), { yes: delta > 0 ? "Skip messages" : "Reset", danger: true, name });
    if (sure) await perform("reset", { group: name, topic, to, confirm: sure.confirm }, `${name} goes on from ${to} in ${topic}`);
  }
  async function clone() {
    const fields = await ask(`Copy the offsets of ${name}`, h(".stack", {}, h("p", {}, "Another group gets these offsets; its own are lost."), field("Topic", topicChoice()), field("To the group", h("input", { name: "target", required: true }))), { yes: "Go on" });
    if (!fields) return;
    const sure = await ask(`Overwrite the offsets of ${fields.target}`, h("p", {}, `In ${fields.topic}. Its consumers should be stopped.`), { yes: "Copy offsets", danger: true, name: fields.target });
    if (sure) await perform("clone", { source: name, target: fields.target, topic: fields.topic, confirm: sure.confirm }, `${fields.target} has the offsets of ${name}`);
  }
  async function remove() {
    const sure = await ask(`Delete ${name}`, h("p", {}, `Its offsets in ${topics().length} topics are lost: consumers that come back begin anew. ${seen.members.length} members are connected.`), { yes: "Delete group", danger: true, name });
    if (sure && await perform("group-delete", { group: name, confirm: sure.confirm }, `${name} is deleted`)) location.assign("/groups");
  }
  async function look(client = "") {
    replace(inside, h("p.loading", {}, "Asking the members…"));
    try {
      const found = await get(`${path}/members`, { client });
      replace(inside,
        found.mismatches.map((m) => h(".note", {}, `Members disagree on ${m.topic}: `, Object.entries(m.expressions).map(([text, ids]) => `“${text}” by ${ids.join(", ")}`).join("; "), ". Messages get lost that way.")),
        found.members.map((m) => h("section", {}, h("h2.mono", {}, m.id), m.fault ? faultBox(new Error(m.fault)) : [
          table([{ label: "Topic", class: "name", cell: (q) => q.topic }, { label: "Queue", class: "name", cell: (q) => `${q.broker}/${q.queue}` }, { label: "Holds", class: "num", cell: (q) => count(q.held) }, { label: "Last consumed", cell: (q) => time(q.consumed) }], m.queues, { label: "Queues of a member" }),
          Object.entries(m.rates).map(([topic, r]) => h("p.quiet", {}, `${topic}: ${rate(r.ok)} ok/s, ${rate(r.failed)} failed/s, ${r.ms.toFixed(1)} ms each`)),
          m.stacks ? h("pre.body", { tabindex: 0 }, m.stacks) : null])));
    } catch (error) { replace(inside, faultBox(error)); }
  }

  poll(async () => {
    seen = await get(path);
    const oldest = Math.min(...seen.queues.filter((q) => q.lag && q.read > 0).map((q) => q.read), Infinity);
    replace(top, head(name, [stateChip(seen.state), seen.model ? h("span", {}, seen.model.toLowerCase()) : null, seen.members.length ? h("span", {}, `${seen.members.length} connected`) : chip("no member connected"), h("span", {}, "updated ", time(seen.at))], [
      button("Reset", reset, { write: true }), button("Skip", skip, { write: true }), button("Copy offsets", clone, { write: true }),
      copyCommand(`contrail group show '${name}'`), button("Delete", remove, { kind: "danger", write: true })]), seen.fault ? h(".note", {}, seen.fault) : null);
    replace(figures, figure("lag", count(seen.lag), seen.state === "stuck" ? "warn" : ""), figure("retries waiting", count(seen.retry)), figure("dead letters", count(seen.dead), seen.dead ? "warn" : ""),
      figure("members", count(seen.members.length)), figure("topics", count(seen.topics)), figure("attempts", seen.config ? count(seen.config.retryMax) : "–"),
      oldest < Infinity ? h(".figure", { title: moment(oldest) }, h("b", {}, time(oldest)), h("span", {}, "read up to, in the slowest queue")) : null);
    lag.draw([seen.series.lag]);
    replace(queues, seen.queues.length ? table([
      { label: "Topic", class: "name", cell: (q) => h("a", { href: topicPath(q.topic) }, q.topic) },
      { label: "Queue", class: "name", cell: (q) => h("a", { href: `/messages?topic=${encodeURIComponent(q.topic)}&queue=${encodeURIComponent(`${q.broker}/${q.queue}`)}&offset=${q.committed}&order=old` , title: "the first message not read" }, `${q.broker}/${q.queue}`) },
      { label: "Progress", class: "p2", cell: progress },
      { label: "Committed", class: "num", cell: (q) => count(q.committed) },
      { label: "End", class: "num p2", cell: (q) => count(q.high) },
      { label: "Lag", class: "num", cell: (q) => count(q.lag) },
      { label: "Read up to", class: "p3", cell: (q) => (q.read > 0 ? time(q.read) : "–") },
      { label: "Last message", class: "p3", cell: (q) => time(q.last) }], seen.queues, { label: "Queues" }) : empty("No offset committed yet", "The group has not finished a message."));
    replace(members, seen.members.length ? [table([
      { label: "Client", class: "name", cell: (m) => m.id }, { label: "Address", class: "name p2", cell: (m) => m.address }, { label: "Language", class: "p2", cell: (m) => m.language }, { label: "Version", cell: (m) => m.version.replace(/^V/, "").replaceAll("_", ".") },
      { label: "", cell: (m) => button("Stacks", () => look(m.id), { kind: "link" }) }], seen.members, { label: "Members" }), h(".bar", {}, button("Ask all members", () => look(), { title: "queues they hold, rates, whether they agree" }))]
      : empty("No member is connected", "Its consumers are not running, or reach another cluster."));
    replace(subs, seen.subscriptions.length ? table([{ label: "Topic", class: "name", cell: (s) => h("a", { href: topicPath(s.topic) }, s.topic) }, { label: "Expression", class: "name", cell: (s) => s.expression }, { label: "Kind", cell: (s) => s.kind }], seen.subscriptions, { label: "Subscriptions" }) : empty("Unknown while nobody is connected"));
  }, 3, (error, retry) => replace(top, head(name), faultBox(error, retry)));
}

function progress(q) {
  if (q.high === null || q.high === q.low) return h("span.quiet", {}, "empty");
  const part = Math.min(Math.max((q.committed - q.low) / (q.high - q.low), 0), 1) * 100;
  const done = h("i"), tick = h("b");
  done.style.width = part + "%";
  tick.style.left = part + "%";
  return h(".span", { title: `${part.toFixed(1)} % read` }, done, tick);
}
