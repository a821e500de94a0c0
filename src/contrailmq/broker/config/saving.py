"""Keeping the broker's tables on disk, in the files and shapes of the original.

Topics and groups are written as soon as they change, offsets every ``flushConsumerOffsetInterval``,
filters every ten seconds; what has not changed is not written.  Text is made on the loop, the disk
is waited for in a thread.  At the end everything is written once more.

A table is written as a whole, so that a thousand changes one after another would cost a thousand
times the whole table.  After each writing a table rests for some times as long as its text took to
make, a second at most; changes of that time are written together.  A small table rests for less
than a millisecond.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from contrailmq.broker.config.offset_file import encode_offsets, load_offsets, offset_file
from contrailmq.broker.config.saved_file import ConfigFile, SmallFiles
from contrailmq.broker.tables.filter_file import decode_filters, encode_filters
from contrailmq.broker.tables.filters import ConsumerFilters
from contrailmq.broker.tables.groups import GroupTable
from contrailmq.broker.tables.offsets import OffsetTable
from contrailmq.broker.tables.topics import TopicTable
from contrailmq.broker.tables.versions import VersionCounter
from contrailmq.clock import Clock
from contrailmq.errors import StoreError
from contrailmq.lifecycle import raise_cancellation, uninterrupted
from contrailmq.protocol.bodies.group import SubscriptionGroupWrapper
from contrailmq.protocol.bodies.topic import TopicConfig, TopicConfigWrapper
from contrailmq.protocol.names import DLQ_PREFIX, is_lmq, is_retry_topic

log = logging.getLogger(__name__)

FILTERS_INTERVAL_S: Final = 10.0
REST: Final = 8  # making texts takes a ninth of the loop's time at most
REST_S_MAX: Final = 1.0
HURRY_S: Final = 0.1


class SafeOffsets(Protocol):
    """Who knows which offsets rest on what is not on disk yet."""

    @property
    def revision(self) -> int:
        """Grows when offsets were cut, so that they are saved again."""
        ...

    def safe(self, pair: str, queues: dict[int, int]) -> dict[int, int]:
        """The offsets of a ``topic@group`` as the file may have them."""
        ...


class SavedTable:
    """One table and its file: what to write, and when that would change anything."""

    def __init__(
        self,
        file: ConfigFile,
        encode: Callable[[], bytes],
        *,
        revision: Callable[[], object],
        interval_s: float,
    ) -> None:
        self._file = file
        self._encode = encode
        self._revision = revision
        self._saved: object = revision()
        self.interval_s = interval_s
        self.due_at = 0.0
        self.is_resting = False  # changed, and not written yet because it was just before

    @property
    def path(self) -> str:
        """Where its file is."""
        return self._file.path

    @property
    def is_dirty(self) -> bool:
        """Whether the file says something else than the table."""
        return self._revision() != self._saved

    def is_missing(self) -> bool:
        """Whether there is no file yet."""
        return not self._file.exists()

    async def save(self) -> None:
        """Write the table as it is now; a disk that refuses is logged, and tried again later."""
        loop = asyncio.get_running_loop()
        revision = self._revision()
        began = loop.time()
        data = self._encode()
        if self.interval_s == 0:
            self.due_at = loop.time() + min(REST * (loop.time() - began), REST_S_MAX)
        try:
            work = loop.run_in_executor(None, self._file.write, data)
            await uninterrupted(work)
            self._saved = revision
        except (OSError, StoreError) as error:
            log.error("cannot save a table: path=%s error=%s", self._file.path, error)


class Saving:
    """Saves tables when they change; a service that runs until cancelled."""

    def __init__(self, files: SmallFiles, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._open: dict[str, ConfigFile] = {}
        self._tables: list[SavedTable] = []
        self._changed = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def add(
        self, name: str, encode: Callable[[], bytes], *,
        revision: Callable[[], object], interval_s: float = 0.0,
    ) -> None:  # fmt: skip
        """Keep one more table in ``config/NAME``; 0 seconds means at once, after ``changed``."""
        self._tables.append(
            SavedTable(self.file(name), encode, revision=revision, interval_s=interval_s)
        )

    def file(self, name: str) -> ConfigFile:
        """The file of a name; the same object for reading it at start and for keeping it."""
        if name not in self._open:
            self._open[name] = ConfigFile(self._files, f"{self._directory}/{name}")
        return self._open[name]

    def changed(self) -> None:
        """A table that is saved at once has changed."""
        self._idle.clear()
        self._changed.set()

    def hurry(self, name: str) -> None:
        """Save a table of some interval at the next occasion; not more than ten times a second."""
        path = self.file(name).path
        for table in self._tables:
            if table.path == path and table.interval_s > 0:
                soon = asyncio.get_running_loop().time() + HURRY_S
                table.due_at = min(table.due_at, soon)
                self.changed()

    async def saved(self) -> None:
        """Return when every change reported so far is on disk (or was refused by it)."""
        await self._idle.wait()

    async def run(self) -> None:
        """Save what changes until cancelled, then everything once more."""
        loop = asyncio.get_running_loop()
        for table in self._tables:
            table.due_at = loop.time() + table.interval_s
        try:
            await self._save_due(first=True)
            while True:
                raise_cancellation()  # a disk that refused may have come in its way
                await self._wait(loop)
                await self._save_due(first=False)
        finally:
            await self._save_all()

    async def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        timed = [table.due_at for table in self._tables if table.interval_s > 0 or table.is_resting]
        wait_s = max(min(timed, default=loop.time() + 3600) - loop.time(), 0.0)
        try:
            async with asyncio.timeout(wait_s):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _save_due(self, *, first: bool) -> None:
        now = asyncio.get_running_loop().time()
        self._changed.clear()
        for table in self._tables:
            if now < table.due_at:
                table.is_resting = table.interval_s == 0 and table.is_dirty
                continue
            table.due_at, table.is_resting = now + table.interval_s, False
            if table.is_dirty or (first and table.interval_s == 0 and table.is_missing()):
                await table.save()
        if not self._changed.is_set() and not any(table.is_resting for table in self._tables):
            self._idle.set()

    async def _save_all(self) -> None:
        for table in self._tables:
            if table.is_dirty or table.is_missing():
                await table.save()
        self._idle.set()


def load_tables(
    saving: Saving,
    topics: TopicTable,
    groups: GroupTable,
    *,
    offsets: OffsetTable,
    filters: ConsumerFilters,
) -> None:
    """Read what an earlier run, ours or Java's, has left; may block on the disk."""
    found_topics = saving.file("topics.json").read(TopicConfigWrapper.decode)
    if found_topics is not None:
        topics.load(found_topics)
    found_groups = saving.file("subscriptionGroup.json").read(SubscriptionGroupWrapper.decode)
    if found_groups is not None:
        groups.load(found_groups)
    load_offsets(saving.file, offsets, has_lights=offsets.has_lights)
    found_filters = saving.file("consumerFilter.json").read(
        lambda data: decode_filters(data, filters), is_cache=True
    )
    for entry in found_filters or ():
        filters.add(entry)


def put_back_topics(
    topics: TopicTable, queues: Iterable[tuple[str, int]], *, queues_least: int
) -> list[str]:
    """Add topics that the store has queues of and the table lacks.

    ``queues`` are the store's, by topic and id. Returns the topics added; each is logged, for only
    the number of its queues is known again.
    """
    stored: dict[str, int] = {}
    for topic, queue_id in queues:
        stored[topic] = max(stored.get(topic, 0), queue_id + 1)
    added = [t for t in sorted(stored) if topics.find(t) is None and not is_lmq(t)]
    for topic in added:
        is_internal = is_retry_topic(topic) or topic.startswith(DLQ_PREFIX)
        count = stored[topic] if is_internal else max(stored[topic], queues_least)
        topics.put(TopicConfig(topic_name=topic, read_queue_nums=count, write_queue_nums=count))
        log.warning(
            "a topic was missing in the table and is put back with default settings: "
            "topic=%s queues=%s",
            topic,
            count,
        )
    return added


def save_tables(
    saving: Saving,
    topics: TopicTable,
    groups: GroupTable,
    *,
    offsets: OffsetTable,
    filters: ConsumerFilters,
    clock: Clock,
    offsets_interval_s: float,
    hold_back: SafeOffsets,
) -> None:
    """Say which table goes to which file; ``hold_back`` cuts offsets to what may be on disk."""
    saving.add(
        "topics.json",
        lambda: topics.wrapper().encode(pretty=True),
        revision=lambda: topics.version.value,
    )
    saving.add(
        "subscriptionGroup.json",
        lambda: groups.wrapper().encode(pretty=True),
        revision=lambda: groups.version.value,
    )
    version = VersionCounter(clock)

    def offsets_text() -> bytes:
        version.bump()
        safe = hold_back.safe
        table = {pair: dict(sorted(safe(pair, q).items())) for pair, q in offsets.pairs()}
        return encode_offsets(table, version.value, has_lights=offsets.has_lights)

    saving.add(
        offset_file(has_lights=offsets.has_lights),
        offsets_text,
        revision=lambda: (offsets.revision, hold_back.revision),
        interval_s=offsets_interval_s,
    )
    saving.add(
        "consumerFilter.json",
        lambda: encode_filters(filters),
        revision=lambda: filters.revision,
        interval_s=FILTERS_INTERVAL_S,
    )
