import { get } from "../api.js";
import { h, replace } from "../dom.js";
import { bytes, count } from "../format.js";
import { chip, empty, faultBox, head, poll, table, time } from "../ui.js";

export async function render(main) {
  const box = h("div");
  replace(main, head("Replication", [h("span", {}, "Who keeps a copy of whom, and how far it is")]), box);
  poll(async () => {
    const seen = await get("/api/replication");
    const names = [...new Set(seen.rows.map((r) => r.name))];
    replace(box, seen.rows.length ? names.map((name) => {
      const members = seen.rows.filter((r) => r.name === name), master = members.find((m) => m.role === "master");
      return h("section", {}, h("h2", {}, name, " ", h("span.quiet", {}, master ? `master since ` : "no master", master ? time(master.boot) : null)),
        table([
          { label: "Address", class: "name", cell: (m) => m.address },
          { label: "Role", cell: (m) => (m.fault ? chip("✕ no answer", "bad") : chip(m.role === "master" ? "● master" : "○ replica", m.role === "master" ? "accent" : "")) },
          { label: "Log end", class: "num", cell: (m) => count(m.end) },
          { label: "Behind", class: "num", cell: (m) => (m === master || !master ? "" : bytes(Math.max(master.end - m.end, 0))) },
          { label: "Follows", class: "name p2", cell: (m) => m.follows?.master ?? "" }], members, { label: `Members of ${name}` }),
        master?.replicas.length ? table([
          { label: "Connected replica", class: "name", cell: (r) => r.address }, { label: "State", cell: (r) => (r.in_sync ? chip("✓ in sync", "good") : chip("▲ behind", "warn")) },
          { label: "Acknowledged", class: "num", cell: (r) => count(r.acked) }, { label: "Behind", class: "num", cell: (r) => bytes(r.behind) }, { label: "Per second", class: "num p2", cell: (r) => bytes(r.speed) }], master.replicas, { label: "Connected replicas" })
          : empty("No replica is connected", "This broker's messages are on one disk. A second copy that takes over: ", h("code", {}, "contrail up --replicas 2")));
    }) : empty("No broker is registered"));
  }, 2, (error, retry) => replace(box, faultBox(error, retry)));
}
