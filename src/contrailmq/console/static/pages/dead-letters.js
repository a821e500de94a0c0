import { get, groupPath } from "../api.js";
import { h, replace } from "../dom.js";
import { count, moment, rate } from "../format.js";
import { ask, button, copyCommand, empty, faultBox, field, head, perform, poll, query, table, time } from "../ui.js";
import { showMessage } from "./body.js";

export async function render(main) {
  return query.get("group") ? letters(main, query.get("group")) : overview(main);
}

function overview(main) {
  const top = h("div"), list = h("div");
  replace(main, top, list);
  replace(top, head("Dead letters"));
  poll(async () => {
    const seen = await get("/api/dead-letters");
    const total = seen.rows.reduce((sum, row) => sum + row.count, 0);
    replace(top, head("Dead letters", [h("span", {}, `${count(total)} messages of ${count(seen.rows.length)} groups failed at every attempt`)]));
    replace(list, seen.rows.length ? table([
      { label: "Group", class: "name", cell: (r) => h("a", { href: `/dead-letters?group=${encodeURIComponent(r.group)}` }, r.group) },
      { label: "Messages", class: "num", cell: (r) => count(r.count) },
      { label: "Per second", class: "num p2", cell: (r) => rate(r.rate) },
      { label: "Last one", cell: (r) => time(r.last) },
      { label: "", class: "p2", cell: (r) => h("a", { href: groupPath(r.group) }, "group") }], seen.rows, { label: "Groups with dead letters" })
      : empty("No dead letters", "A message that fails at every attempt of a group (16 by default) ends here, where it can be read, edited and sent again."));
  }, 5, (error, retry) => replace(list, faultBox(error, retry)));
}

async function letters(main, group) {
  const topic = `%DLQ%${group}`;
  const rows = h("tbody"), foot = h(".bar"), side = h("aside.side", { hidden: true, "aria-label": "Message" }), trouble = h("div");
  const all = h("input", { type: "checkbox", "aria-label": "choose all shown" });
  const resend = button("Send again", () => again(""), { kind: "primary", write: true });
  const elsewhere = button("Send to a topic…", async () => {
    const fields = await ask("Send to another topic", field("Topic", h("input", { name: "to", required: true })), { yes: "Go on" });
    if (fields) again(fields.to);
  }, { write: true });
  const grid = h("table", { class: "messages", "aria-label": "Dead letters" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, all), ["Stored", "Queue:offset", "Tag", "Body"].map((t, n) => h("th", { scope: "col", class: n === 2 ? "p2" : "" }, t)))), rows);
  const split = h(".split", {}, h("div", {}, h(".scroll", {}, grid), foot), side);
  let found = [], cursor = "", chosen = new Set();
  replace(main, head(`Dead letters of ${group}`, [h("a", { href: groupPath(group) }, "group"), h("a", { href: "/dead-letters" }, "all dead letters")], [resend, elsewhere, copyCommand(`contrail pipeline redrive '${group}'`)]),
    h("p.quiet", {}, "Up to 20 at a time go back to the topic they came from, as new messages; the dead letters stay. For more there is the Spark pipeline: ", h("code", {}, `contrail pipeline redrive '${group}'`)), trouble, split);
  all.addEventListener("change", () => { chosen = new Set(all.checked ? found.slice(0, 20).map(placed) : []); draw(); });

  const placed = (row) => `${row.broker}/${row.queue}:${row.offset}`;
  function draw() {
    resend.textContent = chosen.size ? `Send ${chosen.size} again` : "Send again";
    if (!found.length) return replace(rows, h("tr", {}, h("td", { colspan: 5 }, empty("No dead letters here", "They are gone with their files, or there never were any."))));
    replace(rows, found.map((row) => h("tr.row", { tabindex: 0, onkeydown: (event) => { if (event.key === "Enter") open(row); } },
      h("td", {}, h("input", { type: "checkbox", checked: chosen.has(placed(row)), "aria-label": `choose ${placed(row)}`, onchange: (event) => { if (event.target.checked) chosen.add(placed(row)); else chosen.delete(placed(row)); draw(); } })),
      h("td.nowrap", { title: moment(row.stored), onclick: () => open(row) }, time(row.stored)), h("td", { class: "name nowrap", onclick: () => open(row) }, `${row.queue}:${row.offset}`),
      h("td.p2", { onclick: () => open(row) }, row.tags), h("td.preview", { onclick: () => open(row) }, row.line))));
  }
  function open(row) { side.hidden = false; split.classList.add("open"); showMessage(side, row, () => { side.hidden = true; split.classList.remove("open"); }); }
  async function again(to) {
    if (!chosen.size) return ask("Choose messages first", h("p", {}, "Tick the messages to send again."), { yes: "Close" });
    const sure = await ask(`Send ${chosen.size} messages again`, h("p", {}, to ? `As new messages to ${to}.` : "As new messages, each to the topic it came from. Every group of that topic gets them, not only this one."), { yes: "Send again" });
    if (!sure) return;
    const done = await perform("resend", { topic, places: [...chosen], to }, `${chosen.size} sent again`);
    if (done) { replace(trouble, table([{ label: "Message", class: "name", cell: ([p]) => p }, { label: "Outcome", class: "name", cell: ([, o]) => o }], Object.entries(done.results), { label: "Outcomes" })); chosen.clear(); draw(); }
  }
  async function load() {
    try {
      const page = await get("/api/messages", { topic, cursor });
      found = found.concat(page.rows);
      cursor = page.cursor;
      draw();
      replace(foot, h("span.quiet", {}, `${count(found.length)} shown of ${count(page.total + found.length - page.rows.length)}`), cursor ? button("Go on", load) : null);
    } catch (error) { replace(trouble, faultBox(error, load)); }
  }
  await load();
}
