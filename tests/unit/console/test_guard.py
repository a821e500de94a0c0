"""What the console refuses: other hosts, other sites, no token, read-only, no account."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from contrailmq.client.access import Credentials
from contrailmq.client.settings import ClientSettings
from contrailmq.console import pages
from contrailmq.console.actions import Actions
from contrailmq.console.guard import POLICY, host_of
from contrailmq.console.settings import REQUEST_SIZE_MAX, ConsoleSettings
from testkit.console_kit import console_world

STATIC = pages.STATIC
ADMIN = Credentials(access_key="operator", secret_key="operator-secret")
ACCOUNTS = """
accounts:
  - accessKey: operator
    secretKey: operator-secret
    admin: true
  - accessKey: reader01
    secretKey: reader-secret
    admin: false
    defaultTopicPerm: SUB
    defaultGroupPerm: SUB
"""


def test_hosts_sites_tokens_and_headers(tmp_path: Path) -> None:
    async def main() -> None:
        async with console_world(tmp_path) as world:
            page = await world.visitor.get("/topics")
            assert page.headers["content-security-policy"] == POLICY
            assert page.headers["x-frame-options"] == "DENY"
            assert page.headers["x-content-type-options"] == "nosniff"
            assert (await world.visitor.get("/", host="evil.example")).status == 421
            assert (await world.visitor.get("/", host="localhost:8080")).status == 200
            order = {"topic": "made"}
            for headers in (
                {"x_contrail_token": "guess"},
                {"origin": "http://evil.example"},
                {"sec_fetch_site": "cross-site"},
            ):
                refused = await world.visitor.act("topic-put", order, **headers)
                assert refused.status == 403, headers
            large = {"content_length": str(REQUEST_SIZE_MAX + 1)}
            assert (await world.visitor.act("topic-put", order, **large)).status == 413
            tail = await world.visitor.get("/api/tail?topic=orders", sec_fetch_site="cross-site")
            assert tail.status == 403
            assert "made" not in await world.admin.topics.names()
            assert (await world.visitor.act("topic-put", order)).status == 200
            assert "made" in await world.admin.topics.names()
            assert (await world.visitor.act("nothing", {})).status == 404
            assert (await world.visitor.act("topic-put", {"queues": 3})).status == 400
            assert (await world.visitor.get("/no-such-page")).status == 404

    asyncio.run(main())


def test_read_only_refuses_every_action(tmp_path: Path) -> None:
    settings = ConsoleSettings(read_only=True)

    async def main() -> None:
        async with console_world(tmp_path, settings) as world:
            for name in Actions(settings).names:
                refused = await world.visitor.act(name, {})
                assert refused.status == 403 and "read-only" in refused.json["error"], name

    asyncio.run(main())


def test_other_machines_need_access_control(tmp_path: Path) -> None:
    async def main(settings: ConsoleSettings) -> int:
        async with console_world(tmp_path, settings) as world:
            return (await world.visitor.get("/", host="10.1.2.3:8080")).status

    assert asyncio.run(main(ConsoleSettings(host="10.1.2.3"))) == 403
    assert asyncio.run(main(ConsoleSettings(host="10.1.2.3", allow_remote=True))) == 200


def test_accounts_of_the_cluster_log_in(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    accounts = tmp_path / "plain_acl.yml"
    accounts.write_text(ACCOUNTS)
    properties = {"aclEnable": "true", "aclFile": str(accounts)}
    client = ClientSettings(credentials=ADMIN)

    async def main() -> None:
        settings = ConsoleSettings(login=True)
        async with console_world(tmp_path, settings, client=client, properties=properties) as world:
            visitor = world.visitor
            page = await visitor.get("/topics")
            assert (page.status, page.headers["location"]) == (303, "/login?next=/topics")
            assert (await visitor.get("/api/topics")).status == 401
            assert (await visitor.get("/static/console.css")).status == 200
            wrong = await visitor.post_form("/login", "account=operator&secret=wrong-secret")
            assert wrong.status == 401 and b"does not accept" in wrong.body
            # The first, a reader, may look but not change; the console asks under that account.
            for account, secret, status in (
                ("reader01", "reader-secret", 403),
                ("operator", "operator-secret", 200),
            ):
                form = f"account={account}&secret={secret}"
                found = await visitor.post_form("/login?next=//evil.example", form)
                assert (found.status, found.headers["location"]) == (303, "/")
                cookie = found.headers["set-cookie"]
                assert "httponly" in cookie.lower() and "samesite=strict" in cookie.lower()
                visitor.headers["cookie"] = cookie.partition(";")[0]
                visitor.token = ""
                order = {"topic": "secret-plans", "confirm": "orders"}
                done = await visitor.act("topic-put", order)
                told = "".join(map(str, done.json.get("results", {}).values()))
                assert ("failed" in told) == (status == 403), (account, done.body)
            assert "secret-plans" in (await visitor.get("/api/topics?kind=all")).body.decode()
            assert "operator-secret" not in caplog.text
            del visitor.headers["cookie"]
            assert (await visitor.get("/api/topics")).status == 401

    with caplog.at_level("DEBUG"):
        asyncio.run(main())


def test_no_markup_is_made_of_text() -> None:
    """Names and bodies are hostile: scripts make elements and text, never markup."""
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|\|\s*safe|"
        r"Markup\(|srcdoc|javascript:|createContextualFragment"
    )
    sources = [*STATIC.rglob("*.js"), *(STATIC.parent / "templates").glob("*.html")]
    assert len(sources) > 15
    for source in sources:
        assert forbidden.search(source.read_text()) is None, source
        assert not re.search(r"https?://(?!www\.w3\.org/)", source.read_text()), source


def test_names_of_hosts() -> None:
    assert host_of("LOCALHOST:8080") == "localhost"
    assert host_of("[::1]:8080") == "[::1]"
    assert host_of("console.example") == "console.example"
