"""How far each queue was consumed: kept at the brokers (clustering) or in a file (broadcast).

Both stores keep a table in memory that the consumer moves forward and write it out now and then.
The file of the local store is Java's: ``{clientId}/{group}/offsets.json`` with a ``.bak`` of the
version before, pretty-printed, queues as object keys.
"""

from __future__ import annotations

import logging
import pathlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from contrailmq.errors import BrokerError, ContrailError, QueryNotFound
from contrailmq.protocol import fastjson
from contrailmq.protocol.queue import MessageQueue

log = logging.getLogger(__name__)

NOT_FOUND = -1
"""The group has no offset in this queue yet."""


class OffsetStore(Protocol):
    """Where consumed offsets are kept."""

    async def read(self, queue: MessageQueue) -> int:
        """The stored offset, -1 if there is none; raises when the broker cannot be asked."""
        ...

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool = True) -> None:
        """Note in memory that everything before ``offset`` is done."""
        ...

    def known(self, queue: MessageQueue) -> int:
        """The offset in memory, -1 if there is none."""
        ...

    async def persist(self, queues: Iterable[MessageQueue], *, confirmed: bool = False) -> None:
        """Write out the offsets of these queues; ``confirmed`` waits until they are kept."""
        ...

    def forget(self, queue: MessageQueue) -> None:
        """The queue belongs to somebody else now."""
        ...

    def table(self) -> dict[MessageQueue, int]:
        """All offsets in memory."""
        ...


class _Memory:
    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool = True) -> None:
        """Note in memory that everything before ``offset`` is done."""
        if offset < 0 or (increase_only and offset <= self._offsets.get(queue, -1)):
            return
        self._offsets[queue] = offset

    def known(self, queue: MessageQueue) -> int:
        """The offset in memory, -1 if there is none."""
        return self._offsets.get(queue, NOT_FOUND)

    def forget(self, queue: MessageQueue) -> None:
        """Drop what is known of a queue."""
        self._offsets.pop(queue, None)

    def table(self) -> dict[MessageQueue, int]:
        """All offsets in memory."""
        return dict(self._offsets)


Fetch = Callable[[MessageQueue], Awaitable[int]]
Commit = Callable[[MessageQueue, int, bool], Awaitable[None]]


class RemoteOffsets(_Memory):
    """Offsets kept by the brokers; ``fetch`` and ``commit`` are the calls to them.

    Regular commits are not answered.  A broker handles requests side by side, so that one of them
    may take effect after a later one that was answered (seen with Java's: an offset fell back, and
    the next consumer got messages again).  What has to be certain is therefore read back.
    """

    def __init__(self, *, fetch: Fetch, commit: Commit) -> None:
        super().__init__()
        self._fetch = fetch
        self._commit = commit
        self._written: dict[MessageQueue, int] = {}
        self._unanswered: set[MessageQueue] = set()  # committed without an answer since the last

    async def read(self, queue: MessageQueue) -> int:
        """Ask the broker; what it says is noted in memory."""
        try:
            offset = await self._fetch(queue)
        except QueryNotFound:
            return NOT_FOUND
        # Not noted as written: a broker answers 0 for a group it has no offset of.
        self._offsets[queue] = offset
        return offset

    async def persist(self, queues: Iterable[MessageQueue], *, confirmed: bool = False) -> None:
        """Tell the brokers what changed since they were told last."""
        for queue in list(queues):
            offset = self._offsets.get(queue, NOT_FOUND)
            if offset < 0 or (not confirmed and self._written.get(queue) == offset):
                continue
            try:
                await self._commit(queue, offset, confirmed)
                self._written[queue] = offset
                if not confirmed:
                    self._unanswered.add(queue)
                elif queue in self._unanswered:
                    self._unanswered.discard(queue)
                    if await self._kept(queue) != offset:
                        await self._commit(queue, offset, confirmed)
            except BrokerError as error:
                log.warning("offset refused queue=%s offset=%s error=%s", queue, offset, error)
            except ContrailError as error:
                log.warning(
                    "offset not committed queue=%s offset=%s error=%s", queue, offset, error
                )

    async def _kept(self, queue: MessageQueue) -> int:
        try:
            return await self._fetch(queue)
        except QueryNotFound:
            return NOT_FOUND

    def forget(self, queue: MessageQueue) -> None:
        """Drop what is known of a queue."""
        super().forget(queue)
        self._written.pop(queue, None)
        self._unanswered.discard(queue)


class LocalOffsets(_Memory):
    """Offsets kept in a file of this machine (LocalFileOffsetStore)."""

    def __init__(self, directory: pathlib.Path | None, *, client_id: str, group: str) -> None:
        super().__init__()
        root = directory or pathlib.Path.home() / ".rocketmq_offsets"
        self.path = root / client_id / group / "offsets.json"
        self._offsets = _load(self.path)
        self._stored = dict(self._offsets)

    async def read(self, queue: MessageQueue) -> int:
        """The offset of the file, or what became of it since."""
        return self.known(queue)

    async def persist(self, queues: Iterable[MessageQueue], *, confirmed: bool = False) -> None:
        """Write the file if anything changed; the version before stays as ``.bak``."""
        changed = {queue: self._offsets[queue] for queue in queues if queue in self._offsets}
        if all(self._stored.get(queue) == offset for queue, offset in changed.items()):
            return
        self._stored.update(changed)
        _save(self.path, self._stored)

    def forget(self, queue: MessageQueue) -> None:
        """Nothing: in broadcast mode every member has every queue."""


def encode_offsets(offsets: dict[MessageQueue, int]) -> bytes:
    """The text of an offsets file."""
    return fastjson.dumps({"offsetTable": offsets}, pretty=True)


def decode_offsets(data: bytes) -> dict[MessageQueue, int]:
    """Read the text of an offsets file; Java's and ours are the same."""
    table = fastjson.loads(data).get("offsetTable") or {}
    found: dict[MessageQueue, int] = {}
    for queue, offset in table.items():
        if isinstance(queue, MessageQueue):
            # AtomicLong is written as a number; very old files have {"value": n}.
            found[queue] = int(offset["value"] if isinstance(offset, dict) else offset)
    return found


def _load(path: pathlib.Path) -> dict[MessageQueue, int]:
    for candidate in (path, path.with_name(path.name + ".bak")):
        try:
            data = candidate.read_bytes()
            if data.strip():
                return decode_offsets(data)
        except FileNotFoundError:
            continue
        except (ContrailError, ValueError, AttributeError, KeyError, TypeError) as error:
            log.warning("offset file is damaged path=%s error=%s", candidate, error)
    return {}


def _save(path: pathlib.Path, offsets: dict[MessageQueue, int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".tmp")
    fresh.write_bytes(encode_offsets(offsets))
    if path.exists():
        path.replace(path.with_name(path.name + ".bak"))
    fresh.replace(path)
