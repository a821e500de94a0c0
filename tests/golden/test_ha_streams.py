"""What real primaries and replicas said: ours makes the same files, and sends the same."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest

from contrailmq.ha import wire
from contrailmq.ha.link import Link
from contrailmq.ha.primary import AnyReplicas, Primary
from contrailmq.ha.replica import ReplicaLink
from contrailmq.ha.settings import HaSettings
from contrailmq.store.settings import StoreSettings
from contrailmq.store.store import Store
from contrailmq.testing.files import SimFiles
from contrailmq.testing.sim import SimClock, simulate

DATA = Path(__file__).parent / "data" / "ha"
SETTINGS = StoreSettings(
    root="store",
    segment_size=32768,
    queue_file_size=20000,
    index_slots=1000,
    index_entries=4000,
    message_size_max=8000,
)


class Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.is_over = False

    def write(self, data: Any) -> None:
        self.written += data

    def writelines(self, pieces: Any) -> None:
        for piece in pieces:
            self.written += piece

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return self.is_over

    def abort(self) -> None:
        self.is_over = True


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text().splitlines()]


def spoken(name: str, side: str) -> dict[int, bytes]:
    """What one side said, by connection."""
    found: dict[int, bytes] = {}
    for line in lines(name):
        if line.get("from") == side:
            found[line["conn"]] = found.get(line["conn"], b"") + base64.b64decode(line["data"])
    return found


@pytest.mark.parametrize("name", ["4.9.7", "5.2.0"])
def test_our_replica_makes_the_files_of_theirs(name: str) -> None:
    (stopped,) = [line["slave"] for line in lines(name) if line.get("event") == "slave stopped"]

    async def scenario(rng: random.Random) -> None:
        store = Store(SETTINGS, files=SimFiles(), clock=SimClock())
        await store.open()
        store.stand_by("a replica")
        reports = spoken(name, "slave")
        for number, data in sorted(spoken(name, "master").items()):
            link = ReplicaLink(store, HaSettings())
            transport = Wire()
            link.connection_made(transport)
            assert bytes(transport.written[:8]) == wire.classic_report(store.max_offset)
            at = 0
            while at < len(data):
                size = rng.choice((1, 5, 12, 700, 9000))
                link.data_received(data[at : at + size])
                at += size
            assert not link.closed.done()
            # Theirs ended with the same report, and said nothing but whole ones.
            assert reports[number][-8:] == wire.classic_report(store.max_offset)
            assert len(transport.written) % 8 == 0
        assert store.max_offset == stopped["end"]
        found = {
            f"{base:020d}": hashlib.sha256(segment.buffer).hexdigest()
            for base, segment in store.log.segments.opened()
        }
        for file in stopped["files"]:
            assert found[file["name"]] == file["sha256"], file["name"]
        assert store.bounds("HaTopic", 0)[1] > 0
        await store.aclose()

    simulate(5, scenario)


@pytest.mark.parametrize("name", ["4.9.7", "5.2.0"])
def test_our_primary_sends_what_theirs_sent(name: str) -> None:
    """Over the log that the recorded primary sent, to the reports of the recorded replica."""

    async def scenario(rng: random.Random) -> None:
        store = Store(SETTINGS, files=SimFiles(), clock=SimClock())
        await store.open()
        store.stand_by("for the log of theirs")
        primary = Primary(store, HaSettings(), quorum=AnyReplicas(1, behind_max=1 << 28))
        primary.serve()
        for number, data in sorted(spoken(name, "master").items()):
            theirs = list(bodies(data))
            first_report = spoken(name, "slave")[number][:8]
            for offset, body in theirs:
                if store.max_offset == store.min_offset:
                    store.begin_at(offset)
                assert store.max_offset == offset
                store.take(memoryview(body))
            link = Link(primary)
            transport = Wire()
            link.connection_made(transport)
            assert not transport.written  # before the first report nothing is said
            link.data_received(first_report[:3])
            link.data_received(first_report[3:])
            ours = list(bodies(bytes(transport.written)))
            joined = b"".join(body for _, body in theirs)
            if first_report == bytes(8):  # from the beginning of the last file
                start = store.max_offset - store.max_offset % SETTINGS.segment_size
                joined = joined[start - theirs[0][0] :]
                assert ours[0][0] == start
            else:
                assert ours[0][0] == theirs[0][0]
            assert b"".join(body for _, body in ours) == joined
            for (offset, body), (following, _) in itertools.pairwise(ours):
                assert offset + len(body) == following
                assert len(body) <= 32768
            link.data_received(wire.classic_report(store.max_offset))
            assert link.acknowledged == store.max_offset
            link.connection_lost(None)
        await store.aclose()

    simulate(5, scenario)


def bodies(data: bytes) -> list[tuple[int, bytes]]:
    """The frames with a body."""
    found: list[tuple[int, bytes]] = []
    reader = wire.FrameReader()
    for item in reader.feed(data):
        if isinstance(item, wire.Frame):
            if item.size:
                found.append((item.offset, b""))
        else:
            assert isinstance(item, memoryview)
            offset, body = found[-1]
            found[-1] = (offset, body + bytes(item))
    return found


def test_the_handshakes_of_controller_mode_are_understood() -> None:
    for conn, data in spoken("5.2.0-controller", "master").items():
        found = list(wire.AutoFrameReader().feed(data))
        hello = found[0]
        assert isinstance(hello, wire.PrimaryHello)
        assert wire.primary_hello(hello) == data[: 20 + 12 * len(hello.epochs)]
        frames = [item for item in found if isinstance(item, wire.Frame)]
        assert frames and all(frame.epoch >= 1 for frame in frames), conn
        again = b"".join(
            wire.auto_frame(item)
            if isinstance(item, wire.Frame)
            else wire.primary_hello(item)
            if isinstance(item, wire.PrimaryHello)
            else bytes(item)
            for item in found
        )
        assert again == data
    for data in spoken("5.2.0-controller", "slave").values():
        pieces = [item for byte in data for item in _fed(byte)]
        assert pieces == []
        reader = wire.AutoReportReader()
        greeting, *reports = [
            item for at in range(len(data)) for item in reader.feed(data[at : at + 1])
        ]
        assert isinstance(greeting, wire.ReplicaHello)
        assert wire.replica_hello(greeting) == data[:16]
        assert reports and all(isinstance(report, int) for report in reports)


def _fed(byte: int) -> list[object]:
    """One byte alone is nothing."""
    return list(wire.AutoReportReader().feed(bytes([byte])))
