// Elements without markup: everything that comes from a cluster is hostile, so it is text, never HTML.

const SVG = "http://www.w3.org/2000/svg";
// Control, zero-width and direction characters: shown as marks, so that a name cannot disguise itself.
const HIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/;
const HIDDEN_ALL = new RegExp(HIDDEN.source, "g");

/** h("td", {class: "num", onclick: f}, "text", node, …) */
export function h(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name || "div");
  if (classes.length) element.className = classes.join(" ");
  return fill(element, attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.classList.add(...String(value).split(" ").filter(Boolean));
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

export function append(parent, children) {
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false) continue;
    if (child instanceof Node) parent.append(child);
    else parent.append(...safe(String(child)));
  }
}

/** A text as nodes; what cannot be seen is shown as a mark. */
export function safe(text) {
  if (!HIDDEN.test(text)) return [document.createTextNode(text)];
  const nodes = [];
  let last = 0;
  for (const match of text.matchAll(HIDDEN_ALL)) {
    if (nodes.length > 2000) break;
    if (match.index > last) nodes.push(document.createTextNode(text.slice(last, match.index)));
    const mark = document.createElement("span");
    mark.className = "mark";
    mark.textContent = "U+" + match[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    nodes.push(mark);
    last = match.index + 1;
  }
  nodes.push(document.createTextNode(text.slice(last)));
  return nodes;
}

export function replace(parent, ...children) {
  parent.replaceChildren();
  append(parent, children);
  return parent;
}
