"""Our broker over store directories of the original: open transactions, delays and filters."""

from __future__ import annotations

import asyncio
import random
import re
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from contrailmq.broker.app import Broker
from contrailmq.broker.config.file import read_conf
from contrailmq.protocol.bodies.queues import DelayOffsets
from contrailmq.protocol.ids import tags_code
from contrailmq.protocol.message import Record, decode_record
from contrailmq.settings import parse_properties
from contrailmq.testing.network import SimNetwork
from contrailmq.testing.sim import EPOCH_MS, SimClock, simulate
from testkit.golden import GOLDEN

NAMES = ("v49-features", "v52-features")
HALF, OP, GROUP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "CID_RMQ_SYS_TRANS"


def serve(name: str, root: Path, scenario: Callable[[Broker], Awaitable[None]]) -> None:
    """Run our broker over a copy, an hour after Java's has stopped."""
    given = parse_properties((GOLDEN / "store" / f"{name}.conf").read_text())
    conf = read_conf(
        {
            **{key: value for key, value in given.items() if not key.startswith("storePath")},
            "storePathRootDir": str(root),
            "namesrvAddr": "",
            "brokerIP1": "10.0.0.1",
            "bindAddress": "10.0.0.1",
            "listenPort": "10911",
            "transactionCheckMax": "100",
            "transactionCheckInterval": "1000",
        }
    )

    async def inside(rng: random.Random) -> None:
        network = SimNetwork(rng).host("10.0.0.1")
        clock = SimClock(offset_ms=last_ms(name) - EPOCH_MS + 3_600_000)
        async with Broker(conf.broker, conf.store, clock=clock, network=network, rng=rng) as broker:
            await scenario(broker)

    simulate(1, inside)


def last_ms(name: str) -> int:
    text = (GOLDEN / "store" / f"{name}.expected.jsonl").read_text()
    return max(int(ms) for ms in re.findall(r'"storeTimestamp":(\d+)', text))


def records(broker: Broker, topic: str) -> list[Record]:
    store = broker.parts.store
    first, end = store.bounds(topic, 0)
    units = [store.unit(topic, 0, offset) for offset in range(first, end)]
    data = [store.record_at(unit[0], unit[1]) for unit in units if unit is not None]
    return [decode_record(record) for record in data if record is not None]


@pytest.mark.parametrize("name", NAMES)
def test_transactions_java_left_open_are_put_back_and_no_others(name: str, tmp_path: Path) -> None:
    """As if Java had been killed before it saved its cursors: op messages alone say what ended."""
    root = tmp_path / name
    shutil.copytree(GOLDEN / "store" / name, root)
    for path in (root / "config").glob("consumerOffset.json*"):
        cursor = re.compile(rb'("RMQ_SYS_TRANS_\w+@CID_RMQ_SYS_TRANS":\{0:)\d+')
        changed, count = cursor.subn(rb"\g<1>0", path.read_bytes())
        assert count == 2
        path.write_bytes(changed)

    async def scenario(broker: Broker) -> None:
        before = records(broker, HALF)
        ended = {
            int(text)
            for record in records(broker, OP)
            for text in bytes(record.body).decode().split(",")
            if text
        }
        still_open = [record for record in before if record.queue_offset not in ended]
        assert 0 < len(still_open) < len(before)
        await asyncio.sleep(1.5)
        put_back = records(broker, HALF)[len(before) :]
        assert Counter(r.unique_key for r in put_back) == Counter(r.unique_key for r in still_open)
        times = "TRANSACTION_CHECK_TIMES"
        for old, new in zip(still_open, put_back, strict=True):
            assert int(new.properties.pop(times)) == int(old.properties.pop(times, "0")) + 1
            assert new.properties == old.properties
            assert (new.body, new.born_ms, new.sys_flag) == (old.body, old.born_ms, old.sys_flag)

    serve(name, root, scenario)


@pytest.mark.parametrize("name", NAMES)
def test_what_java_settled_stays_settled_and_delays_go_on(name: str, tmp_path: Path) -> None:
    root = tmp_path / name
    shutil.copytree(GOLDEN / "store" / name, root)
    saved = DelayOffsets.decode((root / "config" / "delayOffset.json").read_bytes()).offset_table

    async def scenario(broker: Broker) -> None:
        halves = len(records(broker, HALF))
        assert {level: broker.parts.delay.offsets[level] for level in saved} == saved
        waiting = [broker.parts.delay.waiting(level) for level in broker.parts.delay.levels()]
        due = sum(end - cursor for cursor, end in waiting)
        log_end = broker.parts.store.max_offset
        await asyncio.sleep(7200)
        assert len(records(broker, HALF)) == halves
        delivered = _log_records(broker, log_end)
        assert len([r for r in delivered if "REAL_TOPIC" in r.properties]) == due
        waiting = [broker.parts.delay.waiting(level) for level in broker.parts.delay.levels()]
        assert all(cursor == end for cursor, end in waiting)

    serve(name, root, scenario)


def _log_records(broker: Broker, offset: int) -> list[Record]:
    found: list[Record] = []
    while offset < broker.parts.store.max_offset:
        data = broker.parts.store.record_at(offset)
        if data is None:
            break
        found.append(decode_record(data))
        offset += found[-1].store_size
    return found


@pytest.mark.parametrize("name", ["v49-clean", "v52-clean", *NAMES])
def test_delay_offsets_in_the_bytes_of_the_original(name: str) -> None:
    data = (GOLDEN / "store" / name / "config" / "delayOffset.json").read_bytes()
    found = DelayOffsets.decode(data)
    assert (found.data_version is not None) == name.startswith("v52")
    assert found.encode(pretty=True) == data


@pytest.mark.parametrize("name", NAMES)
def test_bit_maps_java_computed_are_the_ones_we_compute(name: str, tmp_path: Path) -> None:
    root = tmp_path / name
    shutil.copytree(GOLDEN / "store" / name, root)

    async def scenario(broker: Broker) -> None:
        store, filters = broker.parts.store, broker.parts.tables.filters
        entries = list(filters.entries("GoldSql"))
        born_ms = max(entry.born_ms for entry in entries)
        compared = 0
        for queue_id in range(8):
            queue = store.queues.find("GoldSql", queue_id)
            for offset in range(*store.bounds("GoldSql", queue_id)):
                unit = store.unit("GoldSql", queue_id, offset)
                assert queue is not None
                assert queue.ext is not None
                assert unit is not None
                ext = queue.ext.find(unit[2])
                record = store.record_at(unit[0], unit[1])
                assert ext is not None
                assert record is not None
                assert ext.tags_code == tags_code(decode_record(record).properties.get("TAGS", ""))
                if ext.store_ms > born_ms:
                    assert ext.bitmap == filters.bitmap("GoldSql", record)
                    compared += 1
        assert compared > 0

    serve(name, root, scenario)
