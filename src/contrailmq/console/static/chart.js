// Lines over time in SVG: colours from the style sheet, so a change of theme needs no redraw.

import { h, replace, svg } from "./dom.js";
import { clock } from "./format.js";

const HEIGHT = 160, LEFT = 46, RIGHT = 6, TOP = 8, BOTTOM = 20;
const GAP_FACTOR = 4; // a pause longer than this many usual steps stays a gap

/** chart("Messages per second", [{label, format}]) → {element, draw(points per series)} */
export function chart(title, series, { format = String } = {}) {
  const area = svg("svg", { role: "img", "aria-label": title, preserveAspectRatio: "none" });
  const keys = h(".keys");
  const element = h(".chart", {}, keys, area);
  let shown = series.map(() => []);
  let scale = null;

  function draw(points) {
    shown = points;
    const width = Math.max(element.clientWidth, 240);
    area.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    const all = points.flat();
    area.replaceChildren();
    if (!all.length) {
      const text = svg("text", { x: width / 2, y: HEIGHT / 2, "text-anchor": "middle" });
      text.textContent = "no data yet: history begins when the console starts";
      area.append(text);
      return legend(null);
    }
    let [begin, end] = [Math.min(...all.map((p) => p[0])), Math.max(...all.map((p) => p[0]))];
    if (end - begin < 60000) begin = end - 60000;
    const top = nice(Math.max(...all.map((p) => p[1]), 1e-9));
    scale = {
      begin, end, width,
      x: (ms) => LEFT + ((ms - begin) / (end - begin)) * (width - LEFT - RIGHT),
      y: (v) => TOP + (1 - v / top) * (HEIGHT - TOP - BOTTOM),
    };
    for (const part of [0, 0.5, 1]) {
      const y = scale.y(top * part);
      area.append(svg("line", { class: "axis", x1: LEFT, x2: width - RIGHT, y1: y, y2: y }));
      const text = svg("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" });
      text.textContent = format(top * part);
      area.append(text);
    }
    for (const ms of ticks(begin, end, width)) {
      const x = scale.x(ms);
      const text = svg("text", { x, y: HEIGHT - 4, "text-anchor": x > width - 24 ? "end" : "middle" });
      text.textContent = clock(ms).slice(0, 5);
      area.append(text);
    }
    points.forEach((line, index) => {
      for (const piece of pieces(line)) {
        const path = piece.map((p, n) => `${n ? "L" : "M"}${scale.x(p[0]).toFixed(1)} ${scale.y(p[1]).toFixed(1)}`).join("");
        const floor = scale.y(0).toFixed(1);
        const closed = `${path}L${scale.x(piece.at(-1)[0]).toFixed(1)} ${floor}L${scale.x(piece[0][0]).toFixed(1)} ${floor}Z`;
        area.append(svg("path", { class: `area f${index}`, d: closed }), svg("path", { class: `line s${index}`, d: path }));
      }
    });
    legend(null);
  }

  function legend(ms) {
    replace(keys, series.map((one, index) => {
      const point = ms === null ? shown[index]?.at(-1) : nearest(shown[index] ?? [], ms);
      return h("span", {}, h(`i.k${index}`), one.label + " ", h("b", {}, point ? (one.format ?? format)(point[1]) : "–"));
    }), ms === null ? null : h("span", {}, clock(ms)));
  }

  function cross(ms) {
    area.querySelector(".cross")?.remove();
    if (ms === null || !scale) return legend(null);
    const x = scale.x(ms);
    area.append(svg("line", { class: "cross", x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM }));
    legend(ms);
  }

  area.addEventListener("pointermove", (event) => {
    if (!scale) return;
    const box = area.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * scale.width;
    const ms = scale.begin + ((x - LEFT) / (scale.width - LEFT - RIGHT)) * (scale.end - scale.begin);
    if (ms >= scale.begin && ms <= scale.end) document.dispatchEvent(new CustomEvent("crosshair", { detail: ms }));
  });
  area.addEventListener("pointerleave", () => document.dispatchEvent(new CustomEvent("crosshair", { detail: null })));
  document.addEventListener("crosshair", (event) => cross(event.detail));
  new ResizeObserver(() => draw(shown)).observe(element);
  return { element, draw };
}

function pieces(points) {
  if (points.length < 2) return points.length ? [[points[0], points[0]]] : [];
  const steps = points.slice(1).map((p, n) => p[0] - points[n][0]).sort((a, b) => a - b);
  const usual = Math.max(steps[Math.floor(steps.length / 2)], 10000);
  const found = [[points[0]]];
  for (let n = 1; n < points.length; n += 1) {
    if (points[n][0] - points[n - 1][0] > usual * GAP_FACTOR) found.push([]);
    found.at(-1).push(points[n]);
  }
  return found;
}

function nice(value) {
  const size = 10 ** Math.floor(Math.log10(value));
  for (const step of [1, 2, 2.5, 5, 10]) if (value <= step * size) return Math.max(step * size, 2);
  return value;
}

function ticks(begin, end, width) {
  const steps = [15, 30, 60, 120, 300, 600, 1800, 3600].map((s) => s * 1000);
  const step = steps.find((one) => ((end - begin) / one) * 64 < width - 60) ?? 7200000;
  const found = [];
  for (let ms = Math.ceil(begin / step) * step; ms <= end; ms += step) found.push(ms);
  return step < 60000 ? found.filter((ms) => ms % 60000 === 0) : found;
}

function nearest(points, ms) {
  let best = null;
  for (const point of points) if (!best || Math.abs(point[0] - ms) < Math.abs(best[0] - ms)) best = point;
  return best;
}

/** A line of the last values, as high as a row. */
export function spark(values) {
  const picture = svg("svg", { class: "spark", viewBox: "0 0 72 18", "aria-hidden": "true" });
  if (values.length < 2) return picture;
  const top = Math.max(...values, 1e-9);
  const path = values.map((v, n) => `${n ? "L" : "M"}${((n / (values.length - 1)) * 72).toFixed(1)} ${(17 - (v / top) * 16).toFixed(1)}`).join("");
  picture.append(svg("path", { d: path }));
  return picture;
}
