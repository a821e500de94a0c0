// What pages share: heads, states, dialogs, notes, polling, the query string.

import { Fault, act } from "./api.js";
import { append, h, replace } from "./dom.js";
import { ago, moment } from "./format.js";

export const readOnly = document.body.dataset.readOnly === "yes";

export function head(title, meta = [], actions = []) {
  return h(".head", {},
    h(".title", {}, h("h1", {}, title), h(".meta", {}, meta)),
    h(".actions", {}, actions));
}

export function button(label, onclick, { kind = "plain", write = false, ...more } = {}) {
  const off = write && readOnly;
  return h("button", { class: kind, type: "button", disabled: off, onclick, title: off ? "the console is read-only" : more.title, ...more }, label);
}

export const time = (ms) => h("time", { class: "nowrap", title: moment(ms) }, ago(ms));
export const chip = (text, kind = "") => h("span", { class: `chip ${kind}` }, text);

export function figure(label, value, kind = "") {
  return h("div", { class: `figure ${kind}` }, h("b", {}, value), h("span", {}, label));
}

export function empty(title, ...why) {
  return h(".empty", {}, h("h3", {}, title), why.map((text) => (text instanceof Node ? text : h("p", {}, text))));
}

export function faultBox(error, retry) {
  const code = error.code !== undefined ? ` (code ${error.code})` : "";
  return h(".fault", { role: "alert" }, error.message + code, error.hint ? h("p", {}, error.hint) : null,
    retry ? h("p", {}, button("Try again", retry)) : null);
}

export function faults(texts) {
  return texts?.length ? h(".note", { role: "status" }, "Incomplete: " + texts.join(" · ")) : null;
}

export function note(text) {
  const toast = h(".toast", {}, text);
  document.getElementById("notes").append(toast);
  setTimeout(() => toast.remove(), 5000);
}

export async function copy(text) {
  await navigator.clipboard.writeText(text).catch(() => null);
  note("Copied: " + (text.length > 60 ? text.slice(0, 60) + "…" : text));
}

export const copyLink = () => button("Copy link", () => copy(location.href));
export const copyCommand = (text) => button("Copy command", () => copy(text), { title: text });

/** Calls work now and every so often while the page can be seen; `r` calls it, Space pauses it. */
export function poll(work, seconds, onFault) {
  let timer = 0, paused = false, busy = false;
  async function run() {
    clearTimeout(timer);
    if (busy) return;
    busy = true;
    try {
      await work();
    } catch (error) {
      if (error.name !== "AbortError") onFault(error, run);
    } finally {
      busy = false;
    }
    timer = setTimeout(() => { if (!document.hidden && !paused) run(); else wait(); }, seconds * 1000);
  }
  function wait() { timer = setTimeout(() => (document.hidden || paused ? wait() : run()), 500); }
  document.addEventListener("contrail-refresh", run);
  document.addEventListener("contrail-pause", () => { paused = !paused; note(paused ? "Updates paused. Space goes on." : "Updates go on."); });
  run();
  return run;
}

export const query = {
  get: (name, other = "") => new URLSearchParams(location.search).get(name) ?? other,
  set(values) {
    const found = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(values)) {
      if (value === "" || value === null || value === undefined) found.delete(name);
      else found.set(name, value);
    }
    const text = found.toString();
    history.replaceState(null, "", location.pathname + (text ? "?" + text : ""));
  },
};

/** A dialog with a form; resolves with its fields, or null. */
export function ask(title, content, { yes = "OK", danger = false, name = "" } = {}) {
  return new Promise((resolve) => {
    const typed = name ? h("input", { name: "confirm", autocomplete: "off", "aria-label": `type ${name} to confirm` }) : null;
    const go = h("button", { class: danger ? "danger" : "primary", type: "submit", disabled: Boolean(name) }, yes);
    typed?.addEventListener("input", () => { go.disabled = typed.value !== name; });
    const form = h("form", { method: "dialog" }, h("h2", {}, title), content,
      name ? h("label", { class: "field" }, h("span", {}, "Type ", h("code", {}, name), " to confirm"), typed) : null,
      h(".foot", {}, button("Cancel", () => box.close()), go));
    const box = h("dialog", { "aria-label": title }, form);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const fields = Object.fromEntries(new FormData(form));
      resolve(fields);
      box.close();
    });
    box.addEventListener("close", () => { resolve(null); box.remove(); });
    document.body.append(box);
    box.showModal();
    (typed ?? form.querySelector("input, select, textarea") ?? go).focus();
  });
}

export function field(label, input) { return h("label", { class: "field" }, h("span", {}, label), input); }

/** Does an action and shows its outcome per broker or queue. */
export async function perform(name, order, done) {
  try {
    const answer = await act(name, order);
    const failed = Object.entries(answer.results ?? {}).filter(([, text]) => String(text).startsWith("failed"));
    note(failed.length ? failed.map((pair) => pair.join(": ")).join("; ") : done);
    document.dispatchEvent(new Event("contrail-refresh"));
    return answer;
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    note(error.message);
    return null;
  }
}

export function table(columns, rows, { label = "", className = "" } = {}) {
  return h(".scroll", { tabindex: 0, role: "region", "aria-label": label || "table" }, h("table", { class: className },
    h("thead", {}, h("tr", {}, columns.map((c) => h("th", { scope: "col", class: c.class ?? "" }, c.label)))),
    h("tbody", {}, rows.map((row) => h("tr.row", {}, columns.map((c) => h("td", { class: c.class ?? "" }, c.cell(row))))))));
}

export { append, replace };
