import { get, groupPath, topicPath } from "../api.js";
import { chart, spark } from "../chart.js";
import { h, replace } from "../dom.js";
import { bytes, count, percent, rate, short } from "../format.js";
import { button, chip, empty, faultBox, faults, figure, head, poll, table, time } from "../ui.js";

const SEVERITY = { problem: "bad", warning: "warn", note: "" };

export function findingList(findings) {
  return h("ul", { class: "findings" }, findings.map((one) => h("li", {},
    h("div", {}, chip(one.severity, SEVERITY[one.severity])),
    h("div", {}, h("div", {}, one.text), one.cause ? h(".why", {}, one.cause) : null, one.fix ? h("code", {}, one.fix) : null))));
}

const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

export function brokerTable(rows) {
  return table([
    { label: "Broker", class: "name", cell: (b) => h("a", { href: `/brokers?address=${encodeURIComponent(b.address)}` }, `${b.name}`) },
    { label: "Role", cell: (b) => (b.fault ? chip("✕ no answer", "bad") : chip(b.role === "master" ? "● master" : "○ replica", b.role === "master" ? "accent" : "")) },
    { label: "Address", class: "name p2", cell: (b) => b.address },
    { label: "Version", class: "p2", cell: (b) => b.version.replace(/^V/, "").replaceAll("_", ".") },
    { label: "In/s", class: "num", cell: (b) => rate(b.in) },
    { label: "Out/s", class: "num", cell: (b) => rate(b.out) },
    { label: "", class: "p3", cell: (b) => spark(b.trend) },
    { label: "Today", class: "num p3", cell: (b) => short(b.today) },
    { label: "p99 ms", class: "num p3", cell: (b) => b.latency.toFixed(2) },
    { label: "Log", class: "num p2", cell: (b) => bytes(b.log) },
    { label: "Disk", class: "num", cell: (b) => diskMeter(b.disk) },
    { label: "Started", class: "p3", cell: (b) => time(b.boot) },
  ], rows, { label: "Brokers" });
}

export function diskMeter(ratio) {
  const bar = h("i");
  bar.style.width = Math.min(ratio * 100, 100) + "%";
  const kind = ratio >= 0.9 ? "bad" : ratio >= 0.75 ? "warn" : "";
  return h("span", { class: "nowrap" }, percent(ratio), h("div", { class: `meter ${kind}` }, bar));
}

export async function render(main) {
  const flow = chart("Messages per second, in and out", [{ label: "in" }, { label: "out" }], { format: rate });
  const lag = chart("Messages not yet consumed, all groups", [{ label: "lag" }], { format: short });
  const top = h("div"), figures = h(".figures"), findings = h("div"), brokers = h("div"), lists = h(".three");
  const more = h("div");
  const doctor = button("examine groups too", async () => {
    doctor.disabled = true;
    replace(more, h("p.loading", {}, "Looking at every group twice, two seconds apart…"));
    try {
      const found = await get("/api/doctor");
      replace(more, found.findings.length ? findingList(found.findings) : h("p.quiet", {}, "The groups are well."));
    } catch (error) { replace(more, faultBox(error)); }
    doctor.disabled = false;
  }, { kind: "link" });
  replace(main, top, figures,
    h("section", {}, h("h2", {}, "Findings ", doctor), findings, more),
    h(".two", {}, h("section", {}, h("h2", {}, "Messages per second"), flow.element), h("section", {}, h("h2", {}, "Lag of all groups"), lag.element)),
    h("section", {}, h("h2", {}, "Brokers"), brokers), lists);
  replace(top, h("p.loading", {}, "Loading…"));

  poll(async () => {
    const [seen, history] = await Promise.all([get("/api/overview"), get("/api/history", { series: "in,out,lag" })]);
    const sentence = seen.brokers.length
      ? `${plural(seen.brokers.length, "broker")}, ${plural(seen.topics, "topic")}, ${plural(seen.groups, "group")}: ${seen.findings.length ? plural(seen.findings.length, "finding") : "all is well"}`
      : "No broker is registered";
    replace(top, head(sentence, [h("span", {}, seen.clusters.join(", ")), h("span", {}, "updated ", time(seen.at))]), faults(seen.faults));
    const worst = Math.max(0, ...seen.brokers.map((b) => b.disk));
    replace(figures, figure("messages in per second", rate(seen.now.in)), figure("messages out per second", rate(seen.now.out)),
      figure("messages behind", short(seen.now.lag)), figure("slowest p99 of a write, ms", (seen.now.latency ?? 0).toFixed(2)),
      figure("fullest disk", percent(worst), worst >= 0.9 ? "bad" : worst >= 0.75 ? "warn" : ""));
    replace(findings, seen.findings.length ? findingList(seen.findings) : h("p.quiet", {}, chip("✓ well", "good"), " Name servers, brokers, disks, clocks, routes and permissions."));
    flow.draw([history.in, history.out]);
    lag.draw([history.lag]);
    replace(brokers, seen.brokers.length ? brokerTable(seen.brokers) : empty("No broker has registered with these name servers", "Start one: ", h("code", {}, "contrail up")));
    replace(lists,
      h("section", {}, h("h2", {}, "Busiest topics"), seen.busiest.length ? table([
        { label: "Topic", class: "name", cell: (t) => h("a", { href: topicPath(t.name) }, t.name) },
        { label: "Messages/s", class: "num", cell: (t) => rate(t.rate) }], seen.busiest, { label: "Busiest topics" }) : empty("Quiet", "No topic got messages in the last seconds.")),
      h("section", {}, h("h2", {}, "Furthest behind"), seen.behind.length ? table([
        { label: "Group", class: "name", cell: (g) => h("a", { href: groupPath(g.name) }, g.name) },
        { label: "", class: "p3", cell: (g) => (g.stuck ? chip("■ stuck", "warn") : spark(g.trend)) },
        { label: "Lag", class: "num", cell: (g) => count(g.lag) }], seen.behind, { label: "Groups furthest behind" }) : empty("All groups are even", "Nothing waits for a consumer.")),
      h("section", {}, h("h2", {}, "Dead letters"), seen.dead.length ? table([
        { label: "Group", class: "name", cell: (d) => h("a", { href: `/dead-letters?group=${encodeURIComponent(d.group)}` }, d.group) },
        { label: "Messages", class: "num", cell: (d) => count(d.count) }], seen.dead, { label: "Dead letters" }) : empty("No dead letters", "No message failed at every attempt.")));
  }, 2, (error, retry) => replace(top, faultBox(error, retry)));
}
