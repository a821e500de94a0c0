"""The console in a real browser: every page in both themes and widths, flows, accessibility.

Needs Chromium (Debian: apt-get install chromium), Playwright and axe-core: ``make browser``
prepares them. With CONTRAIL_PICTURES=1 the pictures of docs/console.md are made again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testkit.console_thread import HOSTILE, shop_console

pytest.importorskip("playwright", reason="make browser installs it")

from playwright.sync_api import Browser, Page, expect, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / ".cache" / "axe" / "package" / "axe.min.js"
PICTURES = ROOT / "docs" / "img" / "console"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
PATHS = {
    "overview": "/", "topics": "/topics", "topic": "/topics/orders",
    "messages": "/messages?topic=orders", "groups": "/groups", "group": "/groups/billing",
    "dead-letters": "/dead-letters?group=mailer", "waiting": "/waiting", "brokers": "/brokers",
    "replication": "/replication", "store": "/store", "settings": "/settings",
    "accounts": "/accounts", "trace": "/trace?id=none",
}  # fmt: skip
PICTURED = {("overview", 1280, "light"), ("messages", 1280, "dark"), ("group", 1280, "light"),
            ("topics", 390, "dark"), ("overview", 390, "light")}  # fmt: skip
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium here"),
    pytest.mark.timeout(240),
]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with shop_console(tmp_path_factory.mktemp("shop")) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


class Watch:
    """What went wrong on a page: messages of the browser, errors, refused and foreign requests."""

    def __init__(self, page: Page, address: str) -> None:
        self.faults: list[str] = []
        page.on("console", lambda m: self.faults.append(m.text) if m.type != "log" else None)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("response", lambda r: self._look(r.url, r.status, address))

    def _look(self, url: str, status: int, address: str) -> None:
        if status >= 400 or not url.startswith((address, "data:")):
            self.faults.append(f"{status} {url}")


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (1280, "dark"), (390, "dark"),
                                              (390, "light")])  # fmt: skip
def test_every_page(address: str, browser: Browser, width: int, theme: Any) -> None:
    context = browser.new_context(
        viewport={"width": width, "height": 844 if width < 500 else 800}, color_scheme=theme
    )
    if AXE.exists():
        context.add_init_script(path=str(AXE))
    page = context.new_page()
    watch = Watch(page, address)
    for name, path in PATHS.items():
        page.goto(address + path)
        expect(page.locator("h1")).to_be_visible()
        expect(page.locator(".loading")).to_have_count(0)
        if name == "messages" and width > 500:
            page.locator("table.messages tbody tr").first.click()
            expect(page.locator(".side .body")).to_be_visible()
        page.wait_for_timeout(400)
        if os.environ.get("CONTRAIL_PICTURES") and (name, width, theme) in PICTURED:
            page.wait_for_timeout(6000 if name in ("overview", "group") else 500)
            height = 640 if name == "messages" else 800
            page.screenshot(
                path=PICTURES / f"{name}-{width}-{theme}.png",
                clip={"x": 0, "y": 0, "width": width, "height": height},
            )
        wide = page.evaluate("() => document.documentElement.scrollWidth")
        assert wide <= width, f"{name} is {wide} wide"
        if AXE.exists():
            watch.faults += _inaccessible(page, name)
    assert not watch.faults, watch.faults
    context.close()


def _inaccessible(page: Page, name: str) -> list[str]:
    found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{name}: {rule['id']} {[node['html'][:120] for node in rule['nodes']][:3]}"
        for rule in found["violations"]
        if rule["impact"] in ("serious", "critical")
    ]


def test_create_send_find_and_delete(address: str, browser: Browser) -> None:
    page = browser.new_page()
    watch = Watch(page, address)
    page.goto(address + "/topics")
    page.get_by_role("button", name="Create topic").click()
    page.locator("dialog input[name=topic]").fill("from-the-browser")
    page.get_by_role("button", name="Create", exact=True).click()
    page.wait_for_url("**/topics/from-the-browser")
    page.get_by_role("button", name="Send", exact=True).click()
    page.get_by_label("Body (UTF-8)").fill('{"hello": "world"}')
    page.get_by_label("Keys, with spaces between").fill("greeting")
    page.locator("dialog").get_by_role("button", name="Send").click()
    expect(page.locator(".toast")).to_contain_text("Stored in broker-a")
    page.goto(address + "/messages?topic=from-the-browser&key=greeting")
    page.locator("table.messages tbody tr").first.click()
    expect(page.locator(".side .tree")).to_contain_text("world")
    page.goto(address + "/topics/from-the-browser")
    page.get_by_role("button", name="Delete").click()
    confirm = page.locator("dialog").get_by_role("button", name="Delete topic")
    expect(confirm).to_be_disabled()
    page.get_by_label("type from-the-browser to confirm").fill("from-the-browser")
    confirm.click()
    page.wait_for_url("**/topics")
    assert not watch.faults
    page.close()


def test_reset_a_group_after_a_preview(address: str, browser: Browser) -> None:
    page = browser.new_page()
    watch = Watch(page, address)
    page.goto(address + "/groups/analytics")
    expect(page.locator(".figure").first).to_be_visible()
    page.get_by_role("button", name="Skip").click()
    page.get_by_role("button", name="Preview").click()
    dialog = page.locator("dialog")
    expect(dialog).to_contain_text("broker-a/0")
    dialog.get_by_label("type analytics to confirm").fill("analytics")
    dialog.locator("button[type=submit]").click()
    expect(page.locator(".toast")).to_contain_text("goes on from last")
    assert not watch.faults
    page.close()


def test_live_tail_search_and_keys(address: str, browser: Browser) -> None:
    page = browser.new_page()
    watch = Watch(page, address)
    page.goto(address + "/messages?topic=orders&live=1")
    expect(page.locator("table.messages tbody tr").nth(3)).to_be_visible(timeout=15000)
    page.get_by_role("button", name="Stop").click()
    page.locator("h1").click()
    page.keyboard.press("/")
    page.get_by_label("Search topics, groups and messages").fill("bill")
    expect(page.locator(".finder li").first).to_contain_text("billing")
    page.keyboard.press("Enter")
    page.wait_for_url("**/groups/billing")
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url("**/topics")
    page.get_by_role("button", name="Theme: system").click()
    assert page.evaluate("() => document.documentElement.dataset.theme") == "light"
    assert not watch.faults
    page.close()


def test_hostile_text_is_text(address: str, browser: Browser) -> None:
    page = browser.new_page()
    watch = Watch(page, address)
    page.on("dialog", lambda dialog: watch.faults.append(dialog.message))
    page.goto(address + "/messages?topic=invoices&key=hostile")
    page.locator("table.messages tbody tr").first.click()
    page.locator(".side .tabs button", has_text="text").click()
    shown = page.locator(".side .body").inner_text()
    assert HOSTILE.split("\u202e")[0] in shown and "U+202E" in shown and "U+0000" in shown
    assert page.locator("img[src=x]").count() == 0
    assert not watch.faults
    page.close()
