import { h, replace } from "../dom.js";
import { copyCommand, empty, field, head, query } from "../ui.js";
import { drawTrace } from "./body.js";

export async function render(main) {
  const box = h("div"), input = h("input", { value: query.get("id"), class: "wide", placeholder: "the producer's id of the message", required: true });
  const form = h("form", { class: "filters" }, field("Message id", input), h("button", { class: "primary", type: "submit" }, "Show"));
  form.addEventListener("submit", (event) => { event.preventDefault(); query.set({ id: input.value.trim() }); drawTrace(box, input.value.trim()); });
  replace(main, head("Trace", [h("span", {}, "What became of a message: sent, stored, each attempt to consume it")], [copyCommand(`contrail message trace ${query.get("id") || "ID"}`)]), form, box);
  if (query.get("id")) await drawTrace(box, query.get("id"));
  else replace(box, empty("Give a message id", "The page of a message shows its trace as well."));
}
