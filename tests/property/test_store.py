"""The store against a plain model: a list of messages in log order.

Whatever is put, flushed, closed, killed or cut off in between: what the store then has is a
prefix of what was put, at least what was on disk; queues are dense; every record is found through
its queue, its time and its key.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import struct
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from contrailmq._native.store import scan
from contrailmq.store.settings import FlushDiskType, StoreSettings
from contrailmq.store.store import Store
from contrailmq.store.types import GetStatus, NewMessage
from contrailmq.testing.files import SimFiles
from contrailmq.testing.sim import SimClock, SimLoop

TOPICS = ("A", "Topic-B", "SCHEDULE_TOPIC_XXXX")
HOST = bytes.fromhex("7f00000100002a9f")


class Put(NamedTuple):
    """One message of the model."""

    topic: str
    queue_id: int
    body: bytes
    key: str
    store_ms: int
    offset: int
    end: int


class StoreMachine(RuleBasedStateMachine):
    """One store directory through its lives."""

    def __init__(self) -> None:
        super().__init__()
        self.rng = random.Random(7)
        self.runner = asyncio.Runner(loop_factory=lambda: SimLoop(random.Random(1)))
        self.files = SimFiles()
        self.model: list[Put] = []
        self.count = 0

    @initialize(
        flush=st.sampled_from(FlushDiskType),
        buffer=st.booleans(),
        ext=st.booleans(),
        segment_size=st.sampled_from([4096, 8192, 12288]),
    )
    def begin(self, flush: FlushDiskType, buffer: bool, ext: bool, segment_size: int) -> None:
        self.settings = StoreSettings(
            root="store",
            segment_size=segment_size,
            queue_file_size=200,
            queue_ext_enable=ext,
            queue_ext_file_size=300,
            index_slots=7,
            index_entries=20,
            message_size_max=3000,
            flush_disk_type=flush,
            write_buffer_enable=buffer,
        )
        self.open()

    def teardown(self) -> None:
        with contextlib.suppress(AttributeError):
            self.run(self.store.aclose)
        self.runner.close()

    def run(self, call: Callable[[], Awaitable[Any]]) -> Any:
        async def body() -> Any:
            return await call()

        return self.runner.run(body())

    def open(self) -> None:
        self.store = Store(self.settings, files=self.files, clock=SimClock())
        self.run(self.store.open)

    @rule(
        topic=st.sampled_from(TOPICS),
        queue_id=st.integers(0, 2),
        size=st.integers(1, 3000),
        key=st.sampled_from(["k1", "k2", "订单"]),
    )
    def put(self, topic: str, queue_id: int, size: int, key: str) -> None:
        body = self.body(size)
        message = self.message(topic, queue_id, body, key)

        async def call() -> None:
            await asyncio.sleep(0.001)
            before = self.count_of(topic, queue_id)
            appended = self.store.put(message)
            assert appended.queue_offset == before
            self.model.append(
                Put(
                    topic,
                    queue_id,
                    body,
                    key,
                    appended.store_ms,
                    appended.offset,
                    appended.end_offset,
                )
            )

        self.run(call)

    @rule(
        topic=st.sampled_from(TOPICS[:2]),
        sizes=st.lists(st.integers(1, 400), min_size=1, max_size=5),
    )
    def put_batch(self, topic: str, sizes: list[int]) -> None:
        bodies = [self.body(size) for size in sizes]
        text = b"KEYS\x01batch"
        inner = b"".join(
            struct.pack(">iiiii", 22 + len(body) + len(text), 0, 0, 0, len(body))
            + body
            + struct.pack(">h", len(text))
            + text
            for body in bodies
        )

        async def call() -> None:
            before = self.count_of(topic, 0)
            done = self.store.put_batch(self.message(topic, 0, b"", "x"), inner)
            assert done.queue_offset == before
            ends = [*done.offsets[1:], done.end_offset]
            for body, offset, end in zip(bodies, done.offsets, ends, strict=True):
                self.model.append(Put(topic, 0, body, "batch", done.store_ms, offset, end))

        self.run(call)

    @rule()
    def flush(self) -> None:
        async def call() -> None:
            if self.store.log.has_write_buffer:
                await self.store._commit.commit()
            await self.store._flush.flush()
            await self.store._queue_flush.flush(thorough=True)

        self.run(call)
        assert self.store.flushed_offset == self.store.max_offset

    @rule()
    def reopen(self) -> None:
        self.run(self.store.aclose)
        assert not self.files.exists("store/abort")
        self.open()
        assert self.store.max_offset >= (self.model[-1].end if self.model else 0)

    @rule()
    def kill(self) -> None:
        kept = self.store.max_offset
        if self.store.log.has_write_buffer:
            kept = self.store.log.committed_offset
        self.files.kill()
        self.after_crash(kept)

    @rule(seed=st.integers(0, 1 << 32), written=st.sampled_from([0.0, 0.5, 0.9]))
    def cut_power(self, seed: int, written: float) -> None:
        kept = self.store.flushed_offset
        self.files.cut_power(random.Random(seed), written=written)
        self.after_crash(kept)

    def after_crash(self, kept: int) -> None:
        self.store._executor.shutdown()
        self.open()
        certain = [put for put in self.model if put.end <= kept]
        left = [put for put in self.model if put.end <= self.store.max_offset]
        assert len(left) >= len(certain)
        self.model = left
        for path in self.files.paths():
            if "commitlog" in path:
                assert len(self.files.read(path) or b"") == self.settings.segment_size

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def search_time(self, data: st.DataObject) -> None:
        put = data.draw(st.sampled_from(self.model))
        messages = [m for m in self.readable() if (m.topic, m.queue_id) == put[:2]]
        if not messages:
            return
        for ms in (put.store_ms - 1, put.store_ms, put.store_ms + 1):
            lower = self.store.offset_by_time(put.topic, put.queue_id, ms)
            assert lower == sum(m.store_ms < ms for m in messages)
            upper = self.store.offset_by_time(put.topic, put.queue_id, ms, upper=True)
            assert upper == max(sum(m.store_ms <= ms for m in messages) - 1, 0)

    @invariant()
    def queues_have_what_was_put(self) -> None:
        if not hasattr(self, "store"):
            return
        queues: dict[tuple[str, int], list[Put]] = {}
        for put in self.readable():
            queues.setdefault((put.topic, put.queue_id), []).append(put)
        for (topic, queue_id), puts in queues.items():
            assert self.store.bounds(topic, queue_id) == (0, len(puts))
            assert self.bodies(topic, queue_id) == [put.body for put in puts]
        for put in self.readable():
            record = self.store.record_at(put.offset)
            assert record is not None
            assert len(record) == put.end - put.offset

    @invariant()
    def keys_find_their_messages(self) -> None:
        if not hasattr(self, "store"):
            return
        for topic in TOPICS:
            for key in ("k1", "订单", "batch"):
                wanted = [p.offset for p in self.readable() if (p.topic, p.key) == (topic, key)]
                found = self.store.query_key(topic, key, count=64, begin_ms=0, end_ms=1 << 60)
                assert set(wanted[-64:]) <= set(found.offsets)
                assert found.offsets == sorted(set(found.offsets))

    def readable(self) -> list[Put]:
        end = self.store.log.gatherer.end_offset
        return [put for put in self.model if put.end <= end]

    def bodies(self, topic: str, queue_id: int) -> list[bytes]:
        found: list[bytes] = []
        offset = 0
        while True:
            result = self.store.get(topic, queue_id, offset, count=100)
            if result.status is GetStatus.OFFSET_OVERFLOW_ONE:
                return found
            assert result.status is GetStatus.FOUND, result
            at = 0
            while at < len(result.records):
                size, _, queue_offset, _, _, body, length, *_ = scan.fields(result.records, at)
                assert queue_offset == len(found)
                found.append(bytes(result.records[body : body + length]))
                at += size
            assert result.next_offset == len(found)
            offset = result.next_offset

    def count_of(self, topic: str, queue_id: int) -> int:
        return sum((put.topic, put.queue_id) == (topic, queue_id) for put in self.model)

    def body(self, size: int) -> bytes:
        self.count += 1
        return (b"%d-" % self.count + self.rng.randbytes(size))[:size]

    def message(self, topic: str, queue_id: int, body: bytes, key: str) -> NewMessage:
        text = b"KEYS\x01" + key.encode() + b"\x02TAGS\x01T\x02DELAY\x013\x02" if body else b""
        return NewMessage(topic, queue_id, body, text, born_ms=5, born_host=HOST, store_host=HOST)


TestStore = StoreMachine.TestCase
TestStore.settings = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
