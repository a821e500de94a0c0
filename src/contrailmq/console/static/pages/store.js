import { get, topicPath } from "../api.js";
import { h, replace } from "../dom.js";
import { bytes, count, percent } from "../format.js";
import { copyCommand, empty, faultBox, figure, head, poll, table, time } from "../ui.js";
import { diskMeter } from "./overview.js";

export async function render(main) {
  const box = h("div");
  replace(main, head("Store", [h("span", {}, "What takes the room, how long it stays, and what is not on disk yet")]), box);
  poll(async () => {
    const seen = await get("/api/store");
    const total = seen.topics.reduce((sum, t) => sum + t.messages, 0);
    replace(box, seen.rows.map((s) => h("section", {}, h("h2", {}, s.broker, " ", h("span.quiet", {}, s.root ?? "")), s.fault ? faultBox(new Error(s.fault)) : [
      h(".figures", {}, figure("in the log", bytes(s.high - s.low)), figure("files", `${count(s.count)} × ${bytes(s.segmentSize)}`), figure("oldest message", s.earliest > 0 ? time(s.earliest) : "–"), figure("kept", `${s.keepHours} h`), figure("deleted at", `${s.deleteWhen}:00`), figure("not flushed", s.flush || "–"), figure("not in queues yet", bytes(s.behind)), figure("average message", bytes(Math.round(s.average)))),
      h("p", {}, "Disk ", diskMeter(s.ratio), h("span.quiet", {}, ` ${bytes(s.free)} free; above 75 % old files go early, above 90 % sends are refused`)),
      table([{ label: "File of the log", class: "name", cell: (f) => f.name }, { label: "From", class: "num p2", cell: (f) => count(f.begin) }, { label: "To", class: "num p2", cell: (f) => count(f.end) }, { label: "Used", class: "num", cell: (f) => bytes(Math.max(f.end - f.begin, 0)) }], s.segments, { label: "Files of the log" }),
      h(".bar", {}, copyCommand(`contrail store check ${s.root}`), h("span.quiet", {}, "checks every record, on the broker's machine, while it is stopped"))])),
      h("section", {}, h("h2", {}, "Topics with most messages"), seen.topics.length ? table([{ label: "Topic", class: "name", cell: (t) => h("a", { href: topicPath(t.topic) }, t.topic) }, { label: "Messages", class: "num", cell: (t) => count(t.messages) }, { label: "Share", class: "num", cell: (t) => percent(t.messages / total) }], seen.topics, { label: "Topics" }) : empty("No messages")));
  }, 5, (error, retry) => replace(box, faultBox(error, retry)));
}
