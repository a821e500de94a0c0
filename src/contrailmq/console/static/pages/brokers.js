import { get } from "../api.js";
import { chart } from "../chart.js";
import { h, replace } from "../dom.js";
import { bytes, count, rate } from "../format.js";
import { chip, empty, faultBox, figure, head, poll, query, table, time } from "../ui.js";
import { brokerTable } from "./overview.js";

const MEANS = {
  putTps: "messages stored per second, over 10 s, 1 min, 10 min", getTransferredTps: "messages handed out per second, over 10 s, 1 min, 10 min",
  getMissTps: "pulls that found nothing, per second", putMessageDistributeTime: "how long writes took, in classes of ms", putLatency99: "99 of 100 writes were faster, ms",
  commitLogDiskRatio: "how full the disk of the log is", remainHowManyDataToFlush: "written and not yet on disk", dispatchBehindBytes: "stored and not yet in queues",
  sendThreadPoolQueueSize: "sends that wait", pullThreadPoolQueueSize: "pulls that wait", earliestMessageTimeStamp: "the oldest message", pageCacheLockTimeMills: "how long the current write has been running, ms",
};

export async function render(main) {
  const wanted = query.get("address");
  return wanted ? broker(main, wanted) : list(main);
}

function list(main) {
  const top = h("div"), box = h("div");
  replace(main, top, box);
  replace(top, head("Brokers"));
  poll(async () => {
    const seen = await get("/api/brokers");
    replace(top, head("Brokers", [h("span", {}, `name servers ${seen.name_servers.join(", ")}`), h("span", {}, "updated ", time(seen.at))]));
    replace(box, seen.rows.length ? brokerTable(seen.rows) : empty("No broker is registered"));
  }, 2, (error, retry) => replace(box, faultBox(error, retry)));
}

function broker(main, address) {
  const top = h("div"), figures = h(".figures"), producers = h("div"), runtime = h("div");
  const flow = chart("Messages per second", [{ label: "in" }, { label: "out" }], { format: rate });
  replace(main, top, figures, h("section", {}, h("h2", {}, "Messages per second"), flow.element), h("section", {}, h("h2", {}, "Producers"), producers), h("section", {}, h("h2", {}, "Runtime"), runtime));
  poll(async () => {
    const seen = await get("/api/broker", { address });
    replace(top, head(seen.name, [chip(seen.role === "master" ? "● master" : "○ replica", "accent"), h("span.mono", {}, seen.address), h("span", {}, `id ${seen.id}`), h("span", {}, "started ", time(seen.boot))], [
      h("a", { class: "button", href: `/settings?address=${encodeURIComponent(address)}` }, "Settings"), h("a", { class: "button", href: "/store" }, "Store")]), seen.fault ? faultBox(new Error(seen.fault)) : null);
    replace(figures, figure("in per second", rate(seen.in)), figure("out per second", rate(seen.out)), figure("stored today", count(seen.today)), figure("log", bytes(seen.log)), figure("p99 of a write, ms", seen.latency.toFixed(2)), figure("version", seen.version.replace(/^V/, "").replaceAll("_", ".")));
    flow.draw([seen.series.in, seen.series.out]);
    replace(producers, seen.producers.length ? table([{ label: "Group", class: "name", cell: (p) => p.group }, { label: "Client", class: "name", cell: (p) => p.id }, { label: "Address", class: "name p2", cell: (p) => p.address }, { label: "Language", class: "p2", cell: (p) => p.language }, { label: "Seen", cell: (p) => time(p.seen) }], seen.producers, { label: "Producers" })
      : seen.lists_producers ? empty("No producer is connected") : empty("This broker does not list producers", "4.9 has no such request."));
    replace(runtime, table([{ label: "Key", class: "name", cell: ([k]) => k }, { label: "Value", class: "name", cell: ([, v]) => v }, { label: "Meaning", class: "quiet p2", cell: ([k]) => MEANS[k] ?? "" }], Object.entries(seen.runtime), { label: "Runtime" }));
  }, 2, (error, retry) => replace(top, head(address), faultBox(error, retry)));
}
