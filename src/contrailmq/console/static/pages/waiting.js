import { get } from "../api.js";
import { h, replace } from "../dom.js";
import { count, rate } from "../format.js";
import { empty, faultBox, figure, head, poll, table, time } from "../ui.js";

export async function render(main) {
  const box = h("div");
  replace(main, head("Waiting", [h("span", {}, "Stored and not visible to consumers yet: delayed messages and open transactions")]), box);
  poll(async () => {
    const seen = await get("/api/waiting");
    replace(box, seen.brokers.map((b) => {
      const levels = b.levels.filter((l) => l.waiting);
      const delayed = levels.reduce((sum, l) => sum + l.waiting, 0);
      return h("section", {}, h("h2", {}, b.broker), b.fault ? faultBox(new Error(b.fault)) : null,
        h(".figures", {}, figure("delayed by level", count(delayed)), figure("in the timer wheel", count(b.timer.congested)), figure("timer in per second", rate(b.timer.enqueue)), figure("timer out per second", rate(b.timer.dequeue)), figure("half messages to look at", count(b.half))),
        levels.length ? table([{ label: "Level", class: "num", cell: (l) => l.level }, { label: "Delay", cell: (l) => l.delay }, { label: "Waiting", class: "num", cell: (l) => count(l.waiting) }, { label: "Delivered", class: "num p2", cell: (l) => count(l.delivered) }, { label: "Last one", cell: (l) => time(l.last) }], levels, { label: "Delay levels" })
          : empty("No message waits for a delay level", "Retries of consumers wait here, too."),
        h("p.quiet", {}, "Look at them: ", h("a", { href: "/messages?topic=SCHEDULE_TOPIC_XXXX" }, "delayed"), ", ", h("a", { href: "/messages?topic=RMQ_SYS_TRANS_HALF_TOPIC" }, "half messages"), b.check ? `. Producers are asked about a half message after ${Number(b.timeout) / 1000} s, then every ${Number(b.check) / 1000} s.` : ""));
    }));
  }, 3, (error, retry) => replace(box, faultBox(error, retry)));
}
