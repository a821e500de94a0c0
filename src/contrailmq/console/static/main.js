// Starts the page that the path names, and what all pages have: theme, zone, search, keys.

import { logOut } from "./api.js";
import { replace } from "./dom.js";
import { zone } from "./format.js";
import { startKeys } from "./keys.js";
import { faultBox } from "./ui.js";

const THEMES = ["", "light", "dark"];
const root = document.documentElement;
const content = document.getElementById("content");

function themeButton() {
  const button = document.getElementById("theme");
  const show = () => { button.textContent = "Theme: " + (root.dataset.theme || "system"); };
  button.addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(root.dataset.theme ?? "") + 1) % THEMES.length];
    if (next) { root.dataset.theme = next; localStorage.setItem("contrail-theme", next); }
    else { delete root.dataset.theme; localStorage.removeItem("contrail-theme"); }
    show();
  });
  show();
}

function zoneButton() {
  const button = document.getElementById("zone");
  const show = () => { button.textContent = "Times: " + (zone.utc ? "UTC" : "local"); };
  button.addEventListener("click", () => { zone.utc = !zone.utc; location.reload(); });
  show();
}

function menuButton() {
  const menu = document.getElementById("menu");
  menu.addEventListener("click", () => {
    const open = menu.closest(".rail").classList.toggle("open");
    menu.setAttribute("aria-expanded", String(open));
  });
}

async function start() {
  themeButton();
  zoneButton();
  menuButton();
  document.getElementById("logout")?.addEventListener("click", logOut);
  startKeys();
  const page = await import(`./pages/${document.body.dataset.page}.js`);
  await page.render(content, document.body.dataset.name);
}

start().catch((error) => replace(content, faultBox(error, () => location.reload())));
