// Figures and moments as people read them.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const SPANS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

export const zone = {
  get utc() { return localStorage.getItem("contrail-zone") === "utc"; },
  set utc(value) { localStorage.setItem("contrail-zone", value ? "utc" : "local"); },
};

export function count(value) {
  return value === null || value === undefined ? "–" : Math.round(value).toLocaleString("en-US");
}

/** Short enough for a tile: 1,234 · 56.7k · 1.2M */
export function short(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size >= 1e9) return (value / 1e9).toFixed(1) + "G";
  if (size >= 1e6) return (value / 1e6).toFixed(1) + "M";
  if (size >= 1e5) return (value / 1e3).toFixed(0) + "k";
  return count(value);
}

export function rate(value) {
  if (value === null || value === undefined) return "–";
  return value !== 0 && value < 10 ? value.toFixed(1) : short(value);
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) { value /= 1024; unit += 1; }
  return (unit ? value.toFixed(1) : value) + " " + UNITS[unit];
}

export function percent(value) { return (value * 100).toFixed(value < 0.1 ? 1 : 0) + " %"; }

export function span(seconds) {
  for (const [name, size] of SPANS) if (seconds >= size) return Math.floor(seconds / size) + " " + name;
  return "0 s";
}

export function ago(ms) {
  if (!ms || ms <= 0) return "never";
  const seconds = (Date.now() - ms) / 1000;
  if (seconds < -1) return "in " + span(-seconds);
  return seconds < 1 ? "now" : span(seconds) + " ago";
}

const two = (n, width = 2) => String(n).padStart(width, "0");

export function clock(ms, millis = false) {
  const d = new Date(ms);
  const [H, M, S, m] = zone.utc
    ? [d.getUTCHours(), d.getUTCMinutes(), d.getUTCSeconds(), d.getUTCMilliseconds()]
    : [d.getHours(), d.getMinutes(), d.getSeconds(), d.getMilliseconds()];
  return `${two(H)}:${two(M)}:${two(S)}` + (millis ? "." + two(m, 3) : "");
}

export function moment(ms) {
  if (!ms || ms <= 0) return "never";
  const d = new Date(ms);
  const day = zone.utc
    ? `${d.getUTCFullYear()}-${two(d.getUTCMonth() + 1)}-${two(d.getUTCDate())}`
    : `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;
  return `${day} ${clock(ms, true)}` + (zone.utc ? " UTC" : "");
}
