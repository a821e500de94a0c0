"""Timers over a store directory of the original: what it left is delivered, once, in its time."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from contrailmq.broker.app import Broker
from contrailmq.broker.config.file import read_conf
from contrailmq.protocol.message import Record, decode_record
from contrailmq.settings import parse_properties
from contrailmq.store.files import OsFiles
from contrailmq.store.store import Store
from contrailmq.store.timers.timers import TIMER_TOPIC, StoreTimers
from contrailmq.testing.network import SimNetwork
from contrailmq.testing.sim import EPOCH_MS, SimClock, simulate
from testkit.golden import GOLDEN

NAME = "v52-timer"
PLACE = GOLDEN / "five" / "store"
TOPIC = "FiveTimer"
SLOT = 32


def facts() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((PLACE / f"{NAME}.timer.json").read_text())
    return found


def copied(root: Path, *, wheel: bool) -> dict[str, str]:
    """A copy of the directory; its conf."""
    shutil.copytree(PLACE / NAME, root)
    if wheel:
        content = bytearray(facts()["timerwheelSize"])
        for slot in facts()["slots"]:
            data = b"".join(
                slot[name].to_bytes(size, "big", signed=True)
                for name, size in (
                    ("time", 8), ("firstPos", 8), ("lastPos", 8), ("num", 4), ("magic", 4),
                )
            )  # fmt: skip
            content[slot["slot"] * SLOT : (slot["slot"] + 1) * SLOT] = data
        (root / "timerwheel").write_bytes(content)
    given = parse_properties((PLACE / f"{NAME}.conf").read_text())
    return {
        **{key: value for key, value in given.items() if not key.startswith("storePath")},
        "storePathRootDir": str(root),
        "namesrvAddr": "",
        "brokerIP1": "10.0.0.1",
        "bindAddress": "10.0.0.1",
        "listenPort": "10911",
    }


def serve(
    conf: dict[str, str], start_ms: int, scenario: Callable[[Broker, SimClock], Awaitable[None]]
) -> None:
    read = read_conf(conf)

    async def inside(rng: random.Random) -> None:
        network = SimNetwork(rng).host("10.0.0.1")
        clock = SimClock(offset_ms=start_ms - EPOCH_MS)
        async with Broker(read.broker, read.store, clock=clock, network=network, rng=rng) as broker:
            await scenario(broker, clock)

    simulate(1, inside)


def records(broker: Broker, topic: str) -> list[Record]:
    store = broker.parts.store
    found = []
    for queue_id in range(4):
        first, end = store.bounds(topic, queue_id)
        for offset in range(first, end):
            unit = store.unit(topic, queue_id, offset)
            data = store.record_at(unit[0], unit[1]) if unit is not None else None
            if data is not None:
                found.append(decode_record(data))
    return found


def rows() -> list[dict[str, Any]]:
    lines = (PLACE / f"{NAME}.expected.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if row["kind"] == "message"]


def expected() -> dict[str, int]:
    """When each message that waits is due, by its body."""
    timers = [row for row in rows() if row["topic"] == TIMER_TOPIC]
    cancelled = {row["properties"].get("TIMER_DEL_UNIQKEY") for row in timers}
    due = {}
    for row in timers:
        properties = row["properties"]
        if "TIMER_DEL_UNIQKEY" in properties or row["uniqKey"] in cancelled:
            continue
        if int(properties["TIMER_OUT_MS"]) >= facts()["timercheck"]["lastReadTimeMs"]:
            due[base64.b64decode(row["body"]).decode()] = int(properties["TIMER_OUT_MS"]) + 1000
    assert len(due) > 5
    return due


def before() -> list[str]:
    """What was delivered already."""
    return [base64.b64decode(row["body"]).decode() for row in rows() if row["topic"] == TOPIC]


@pytest.mark.parametrize("wheel", [True, False])
def test_what_java_left_comes_once_and_in_time(tmp_path: Path, wheel: bool) -> None:
    """With its wheel, or from the timer log alone; one came due while no broker ran."""
    start = facts()["timercheck"]["lastReadTimeMs"] + 120_000
    due = expected()

    async def scenario(broker: Broker, clock: SimClock) -> None:
        for until in (10, 7200, 100_000, 270_000):
            clock.jump(start + 1000 * until - clock.now_ms())
            await asyncio.sleep(3)
            found = sorted(bytes(record.body).decode() for record in records(broker, TOPIC))
            come = [body for body, ms in due.items() if ms <= clock.now_ms() - 1000]
            assert found == sorted(before() + come)
        for record in records(broker, TOPIC):
            body = bytes(record.body).decode()
            if body in due and body != "down":
                assert due[body] - 1000 < record.store_ms, body

    serve(copied(tmp_path / "store", wheel=wheel), start, scenario)


def test_our_units_and_slots_are_javas(tmp_path: Path) -> None:
    """The same records, put into the wheel at the same second, give the same bytes."""
    root = tmp_path / "store"
    conf = copied(root, wheel=False)
    shutil.copytree(root / "timerlog", tmp_path / "theirs")
    shutil.rmtree(root / "timerlog")
    (root / "config" / "timercheck").unlink()
    write_ms = facts()["log"][0]["writeTime"]

    async def session() -> None:
        store = Store(read_conf(conf).store, files=OsFiles(), clock=SimClock())
        await store.open()
        try:
            timers = StoreTimers(store)
            timers.open(write_ms)
            timers.step(write_ms)
            assert timers.queue_offset == facts()["timercheck"]["lastTimerQueueOffset"]
            for slot in facts()["slots"]:
                assert timers.waits_in_slot(slot["time"] * 1000) == slot["num"]
            timers.close()
        finally:
            await store.aclose()

    simulate(1, lambda rng: session())
    for path in sorted((tmp_path / "theirs").iterdir()):
        assert (root / "timerlog" / path.name).read_bytes() == path.read_bytes()
    wheel = (root / "timerwheel").read_bytes()
    assert len(wheel) == facts()["timerwheelSize"]
    for slot in facts()["slots"]:
        data = wheel[slot["slot"] * SLOT : (slot["slot"] + 1) * SLOT]
        numbers = [int.from_bytes(data[at : at + 8], "big") for at in (0, 8, 16)]
        assert numbers == [slot["time"], slot["firstPos"], slot["lastPos"]]
