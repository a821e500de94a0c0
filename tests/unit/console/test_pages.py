"""What the console answers: every page, the lists, messages, groups; over a real broker."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path
from urllib.parse import quote

from contrailmq.console.app import READS, SHELLS
from contrailmq.protocol.queue import MessageQueue
from testkit.console_kit import World, console_world

DLQ = "%DLQ%billing"


def test_every_page_and_every_reading(tmp_path: Path) -> None:
    async def main() -> None:
        async with console_world(tmp_path) as world:
            await world.send("orders", b'{"n": 1}', tags="paid", keys="k1")
            for path in SHELLS:
                page = await world.visitor.get(path.replace("{name:path}", "orders"))
                assert page.status == 200, path
                assert b'data-page="' in page.body
            assert (await world.visitor.json("/api/doctor"))["findings"] == []
            await _commit(world, "billing", 0)
            for path in READS:
                if path in (
                    "/api/tail",
                    "/api/message",
                    "/api/raw",
                    "/api/messages",
                    "/api/doctor",
                ):
                    continue
                name = "billing" if "groups" in path else "orders"
                query = "?topic=orders&to=first" if path.endswith("/reset") else "?id=x"
                answer = await world.visitor.get(path.replace("{name:path}", name) + query)
                expected = 409 if path.endswith("/members") else 200  # nobody is connected
                assert answer.status == expected, (path, answer.body)
                assert answer.headers["cache-control"] == "no-store"

    asyncio.run(main())


def test_topics_are_listed_sorted_and_filtered(tmp_path: Path) -> None:
    async def main() -> None:
        async with console_world(tmp_path) as world:
            for name in ("alpha", "beta", "gamma"):
                await world.admin.topics.create(name, queues=1)
            await world.send("beta", b"1", b"2")
            await world.visitor.json("/api/topics?kind=all")
            seen = await world.visitor.json("/api/topics?sort=-messages&limit=2")
            assert seen["rows"][0]["name"] == "beta"
            assert (seen["total"], len(seen["rows"]), seen["rows"][0]["messages"]) == (4, 2, 2)
            seen = await world.visitor.json("/api/topics?filter=AL+ph&offset=0")
            assert [row["name"] for row in seen["rows"]] == ["alpha"]
            system = await world.visitor.json("/api/topics?kind=system")
            assert "TBW102" in [row["name"] for row in system["rows"]]
            wrong = await world.visitor.get("/api/topics?sort=colour")
            assert wrong.status == 400 and "name" in wrong.json["error"]
            assert (await world.visitor.get("/api/topics?limit=100000")).status == 400
            assert (await world.visitor.get("/api/topics/nothing")).status == 404
            hits = await world.visitor.json("/api/search?q=gam")
            assert hits["hits"] == [{"kind": "topic", "name": "gamma"}]

    asyncio.run(main())


def test_messages_newest_first_page_by_page(tmp_path: Path) -> None:
    async def main() -> None:
        async with console_world(tmp_path) as world:
            bodies = [b"message %03d" % n for n in range(90)]
            await world.send("orders", *bodies)
            lines: list[str] = []
            cursor = ""
            while True:
                path = f"/api/messages?topic=orders&limit=40&cursor={quote(cursor)}"
                page = await world.visitor.json(path)
                lines += [row["line"] for row in page["rows"]]
                cursor = page["cursor"]
                if not cursor:
                    break
            assert sorted(lines) == [body.decode() for body in bodies]
            stamps = await world.visitor.json("/api/messages?topic=orders&limit=90")
            times = [row["stored"] for row in stamps["rows"]]
            assert times == sorted(times, reverse=True)
            old = await world.visitor.json("/api/messages?topic=orders&order=old&limit=3")
            assert old["rows"][0]["line"] == "message 000"
            one = await world.visitor.json(
                "/api/messages?topic=orders&queue=broker-a/1&offset=5&order=old&limit=1"
            )
            assert (one["rows"][0]["queue"], one["rows"][0]["offset"]) == (1, 5)

    asyncio.run(main())


def test_messages_by_tag_sql_text_key_and_id(tmp_path: Path) -> None:
    async def main() -> None:
        async with console_world(tmp_path) as world:
            ask = world.visitor.json
            await world.send("orders", b"first", tags="paid", keys="k1", properties={"amount": "5"})
            await world.send("orders", b"Second", tags="new", keys="k2", properties={"amount": "9"})
            for query, expected in {
                "tag=paid": "first", "sql=amount+%3E+7": "Second", "text=SECOND": "Second",
                "key=k2": "Second",
            }.items():  # fmt: skip
                found = await ask(f"/api/messages?topic=orders&{query}")
                assert [row["line"] for row in found["rows"]] == [expected], query
            row = (await ask("/api/messages?topic=orders&key=k1"))["rows"][0]
            for query in (f"id={row['id']}", f"queue=broker-a/{row['queue']}&offset=0"):
                seen = await ask(f"/api/message?topic=orders&{query}")
                assert seen["id"] == row["id"] and seen["properties"]["amount"] == "5"
            place = (await ask(f"/api/message?topic=orders&id={row['id']}"))["offsetId"]
            found = await ask(f"/api/messages?topic=orders&key={place}")
            assert found["rows"][0]["line"] == "first"
            foreign = "0A000001" + place[8:]  # the id names another address: nobody dials it
            answer = await world.visitor.get(f"/api/message?id={foreign}")
            assert answer.status == 400 and "registered" in answer.json["error"]
            wrong = await world.visitor.get("/api/messages?topic=orders&sql=amount+%3E")
            assert wrong.status >= 400

    asyncio.run(main())


def test_bodies_are_opened_and_named(tmp_path: Path) -> None:
    async def main() -> None:
        async with console_world(tmp_path) as world:
            text = json.dumps({"a": [1, 2], "big": 12345678901234567890})
            await world.send("orders", gzip.compress(text.encode()))
            path = "topic=orders&queue=broker-a/{}&offset=0"
            queue = (await world.visitor.json("/api/messages?topic=orders"))["rows"][0]["queue"]
            seen = await world.visitor.json("/api/message?" + path.format(queue))
            assert seen["body"]["layers"] == ["gzip"]
            assert [view["kind"] for view in seen["body"]["views"]] == ["json", "text", "hex"]
            assert seen["body"]["views"][0]["text"] == text
            raw = await world.visitor.get("/api/raw?" + path.format(queue))
            assert raw.body == text.encode()
            assert raw.headers["content-type"] == "application/octet-stream"
            assert raw.headers["content-security-policy"].startswith("sandbox")
            cut = await world.visitor.json("/api/message?size=10&" + path.format(queue))
            assert cut["body"]["cut"] and cut["body"]["shown"] == 10

    asyncio.run(main())


def test_a_group_its_lag_and_a_reset(tmp_path: Path) -> None:
    async def main() -> None:
        async with console_world(tmp_path) as world:
            await world.send("orders", *[b"%d" % n for n in range(10)])
            await _commit(world, "billing", 1)
            seen = await world.visitor.json("/api/groups/billing")
            assert (seen["lag"], seen["state"], seen["members"]) == (8, "behind", [])
            rows = await world.visitor.json("/api/groups?sort=-lag")
            assert (rows["rows"][0]["name"], rows["rows"][0]["lag"]) == ("billing", 8)
            plan = await world.visitor.json("/api/groups/billing/reset?topic=orders&to=last")
            assert [row["before"] for row in plan["rows"]] == [1, 1]
            assert sum(row["after"] for row in plan["rows"]) == 10
            order = {"group": "billing", "topic": "orders", "to": "last"}
            refused = await world.visitor.act("reset", order)
            assert refused.status == 400 and "type the name" in refused.json["error"]
            done = await world.visitor.act("reset", {**order, "confirm": "billing"})
            assert sum(done.json["results"].values()) == 10
            assert (await world.visitor.json("/api/groups/billing"))["lag"] == 0
            wrong = await world.visitor.get("/api/groups/billing/reset?topic=orders&to=soon")
            assert wrong.status == 400

    asyncio.run(main())


def test_dead_letters_are_sent_again_to_where_they_came_from(tmp_path: Path) -> None:
    async def main() -> None:
        async with console_world(tmp_path) as world:
            await world.admin.topics.create(DLQ, queues=1)
            await world.send(DLQ, b"broken", tags="t", properties={"mine": "1"})
            rows = (await world.visitor.json("/api/dead-letters"))["rows"]
            assert [(row["group"], row["count"]) for row in rows] == [("billing", 1)]
            order = {"topic": DLQ, "places": ["broker-a/0:0"]}
            told = (await world.visitor.act("resend", order)).json["results"]
            assert "name one" in told["broker-a/0:0"]  # it does not say where it came from
            told = (await world.visitor.act("resend", {**order, "to": "orders"})).json["results"]
            assert told["broker-a/0:0"].startswith("sent to orders")
            world.look_again()
            found = await world.visitor.json("/api/messages?topic=orders")
            assert [row["line"] for row in found["rows"]] == ["broken"]
            many = {**order, "places": ["broker-a/0:0"] * 21}
            assert (await world.visitor.act("resend", many)).status == 400

    asyncio.run(main())


def test_the_tail_shows_what_comes(tmp_path: Path) -> None:
    async def main() -> None:
        async with console_world(tmp_path) as world:
            await world.send("orders", b"before")
            stream = world.visitor.stream("/api/tail?topic=orders")
            assert b"retry" in await anext(stream)
            await world.send("orders", b"after")
            async with asyncio.timeout(10):
                event = await anext(stream)
            frame = json.loads(event.partition(b"data: ")[2])
            assert [row["line"] for row in frame["rows"]] == ["after"]
            assert frame["skipped"] == 0
            await stream.aclose()

    asyncio.run(main())


async def _commit(world: World, group: str, offset: int) -> None:
    await world.admin.groups.create(group)
    for queue in range(2):
        await world.admin.offsets.commit(MessageQueue("orders", "broker-a", queue), group, offset)
