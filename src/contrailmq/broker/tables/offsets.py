"""How far each group has consumed each queue.

The table of ``consumerOffset.json``: ``topic@group`` -> queue -> next offset to consume.  A commit
overwrites whatever was there, also with a smaller value.  A *reset mark* is an offset an
administrator has set: until the group's next pull of that queue has been told about it, commits
are ignored, for they come from a consumer that does not know yet (ConsumerOffsetManager).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from contrailmq.errors import SystemBusy
from contrailmq.protocol.names import is_lmq

SEPARATOR: Final = "@"
PAIRS_MAX: Final = 1_000_000


class OffsetTable:
    """Committed offsets, and reset marks. Bounded by ``pairs_max`` topic-group pairs."""

    def __init__(self, *, pairs_max: int = PAIRS_MAX) -> None:
        self._pairs_max = pairs_max
        self._table: dict[str, dict[int, int]] = {}
        self._marks: dict[str, dict[int, int]] = {}
        self._pulled: dict[str, dict[int, int]] = {}
        self.revision = 0
        self.has_lights = False  # groups %LMQ%… have one offset per topic, whatever the queue
        self.saved_ms = 0  # when the file was written that this run began with

    def find(self, group: str, topic: str, queue_id: int) -> int | None:
        """The next offset the group consumes in a queue; None when it never committed."""
        queues = self._table.get(f"{topic}@{group}")
        if self.has_lights and is_lmq(group):
            queue_id = 0
        return None if queues is None else queues.get(queue_id)

    def commit(self, group: str, topic: str, queue_id: int, *, offset: int) -> bool:
        """Store an offset; False when a reset mark outranks it, and nothing changed."""
        pair = f"{topic}@{group}"
        if self.has_lights and is_lmq(group):
            queue_id = 0
        marks = self._marks
        if marks and pair in marks and queue_id in marks[pair]:
            return False
        queues = self._table.get(pair)
        if queues is None:
            queues = self._add(pair)
        if queues.get(queue_id) != offset:
            queues[queue_id] = offset
            self.revision += 1
        return True

    def reset(self, group: str, topic: str, queue_id: int, *, offset: int) -> None:
        """Set an offset by order of an administrator, and mark it until a pull has seen it."""
        pair = f"{topic}@{group}"
        queues = self._table.get(pair)
        if queues is None:
            queues = self._add(pair)
        queues[queue_id] = offset
        self._marks.setdefault(pair, {})[queue_id] = offset
        self.revision += 1

    @property
    def has_marks(self) -> bool:
        """Whether any group has been moved and not been told yet."""
        return bool(self._marks)

    def take_mark(self, group: str, topic: str, queue_id: int) -> int | None:
        """The reset mark of a queue, which ends with this call; None when there is none."""
        if not self._marks:
            return None
        pair = f"{topic}@{group}"
        marks = self._marks.get(pair)
        if marks is None:
            return None
        mark = marks.pop(queue_id, None)
        if not marks:
            del self._marks[pair]
        return mark

    def note_pull(self, group: str, topic: str, queue_id: int, *, offset: int) -> None:
        """Remember where a group pulls; statistics show it beside the committed offset."""
        self.pulls_of(group, topic)[queue_id] = offset

    def pulls_of(self, group: str, topic: str) -> dict[int, int]:
        """Where a group pulls, by queue, to be noted in place; nobody's with too many pairs."""
        pair = f"{topic}@{group}"
        queues = self._pulled.get(pair)
        if queues is None:
            queues = {}
            if len(self._pulled) < self._pairs_max:
                self._pulled[pair] = queues
        return queues

    def find_pulled(self, group: str, topic: str, queue_id: int) -> int | None:
        """The offset a group last pulled from in this run of the broker, or None."""
        return self._pulled.get(f"{topic}@{group}", {}).get(queue_id)

    def queues_of(self, group: str, topic: str) -> dict[int, int]:
        """A copy of what a group committed in a topic."""
        return dict(self._table.get(f"{topic}@{group}", {}))

    def topics_of(self, group: str) -> list[str]:
        """The topics a group has offsets in."""
        tail = SEPARATOR + group
        return [pair[: -len(tail)] for pair in self._table if pair.endswith(tail)]

    def groups_of(self, topic: str) -> list[str]:
        """The groups that have offsets in a topic."""
        head = topic + SEPARATOR
        return [pair[len(head) :] for pair in self._table if pair.startswith(head)]

    def copy(self, source: str, target: str, topic: str) -> None:
        """Give one group the offsets of another in a topic."""
        queues = self._table.get(f"{topic}@{source}")
        if queues:
            pair = f"{topic}@{target}"
            if pair not in self._table:
                self._add(pair)
            self._table[pair] = dict(queues)
            self.revision += 1

    def forget_group(self, group: str) -> None:
        """Drop everything of a deleted group."""
        for topic in self.topics_of(group):
            self._forget(f"{topic}@{group}")

    def forget_topic(self, topic: str) -> None:
        """Drop everything of a deleted topic."""
        for group in self.groups_of(topic):
            self._forget(f"{topic}@{group}")

    def pairs(self) -> Iterator[tuple[str, dict[int, int]]]:
        """Every ``topic@group`` with its offsets, in the order they appeared."""
        yield from self._table.items()

    def load(self, table: dict[str, dict[int, int]], *, saved_ms: int = 0) -> None:
        """Take over what a file held that was written at ``saved_ms``, 0 for an unknown time."""
        self.saved_ms = saved_ms
        self._table = {pair: dict(queues) for pair, queues in table.items() if SEPARATOR in pair}

    def merge(self, table: dict[str, dict[int, int]]) -> None:
        """Take over what a primary has; what it does not name stays."""
        for pair, queues in table.items():
            if SEPARATOR not in pair:
                continue
            own = self._table.get(pair)
            if own is None:
                own = self._add(pair)
            if any(own.get(queue_id) != offset for queue_id, offset in queues.items()):
                own.update(queues)
                self.revision += 1

    def _add(self, pair: str) -> dict[int, int]:
        if len(self._table) >= self._pairs_max:
            raise SystemBusy(f"offset table is full: at most {self._pairs_max} topic-group pairs")
        queues: dict[int, int] = {}
        self._table[pair] = queues
        return queues

    def _forget(self, pair: str) -> None:
        for table in (self._table, self._marks, self._pulled):
            table.pop(pair, None)
        self.revision += 1

    def __len__(self) -> int:
        return len(self._table)

    def __repr__(self) -> str:
        return f"<OffsetTable pairs={len(self._table)} revision={self.revision}>"
