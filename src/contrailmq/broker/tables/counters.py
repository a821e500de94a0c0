"""What has passed through the broker, counted where it happens.

Plain running sums: whoever wants rates or windows takes snapshots.  Keys are made by topics and
groups that exist, and go with them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from contrailmq.protocol.names import is_system_topic


@dataclass(frozen=True, slots=True)
class Sum:
    """Messages and bytes so far."""

    count: int
    size: int


_NOTHING = Sum(0, 0)


class Counters:
    """Sums per topic, queue and group; owned by the event loop."""

    __slots__ = (
        "_acked",
        "_got",
        "_hidden",
        "_put",
        "_put_size",
        "_put_total",
        "_sent_back",
        "_waited",
        "before_read",
        "got_found",
        "got_missed",
        "got_total",
        "put_failed",
        "wait_ms_max",
    )

    def __init__(self) -> None:
        self._put: dict[tuple[str, int], list[int]] = {}
        self._got: dict[tuple[str, str, int], list[int]] = {}
        self._sent_back: dict[tuple[str, str], int] = {}
        self._waited: dict[tuple[str, str, int], list[int]] = {}
        self._acked: dict[tuple[str, str], int] = {}
        self._hidden: dict[tuple[str, str], int] = {}
        self._put_total = 0
        self._put_size = 0
        # Whoever counts elsewhere hands its counts over here.
        self.before_read: Callable[[], None] = lambda: None
        self.got_total = 0
        self.got_found = 0  # pulls that got messages
        self.got_missed = 0  # pulls that got none
        self.put_failed = 0  # messages and batches the store refused
        self.wait_ms_max = 0  # the longest a pull waited for the disk

    def put(self, topic: str, queue_id: int, *, count: int, size: int) -> None:
        """Messages were stored."""
        self._put_total += count
        self._put_size += size
        entry = self._put.get((topic, queue_id))
        if entry is None:
            self._put[topic, queue_id] = [count, size]
        else:
            entry[0] += count
            entry[1] += size

    def got(self, group: str, topic: str, queue_id: int, *, count: int, size: int) -> None:
        """Messages were handed to a group."""
        self.got_total += count
        self.got_found += 1
        entry = self._got.get((topic, group, queue_id))
        if entry is None:
            self._got[topic, group, queue_id] = [count, size]
        else:
            entry[0] += count
            entry[1] += size

    def tally(self, group: str, topic: str, queue_id: int) -> list[int]:
        """Messages and bytes a group was handed from a queue: sums to be added to in place."""
        return self._got.setdefault((topic, group, queue_id), [0, 0])

    def waited(self, group: str, topic: str, queue_id: int, *, milliseconds: int) -> None:
        """A pull waited for messages that had left memory."""
        self.wait_ms_max = max(self.wait_ms_max, milliseconds)
        entry = self._waited.setdefault((topic, group, queue_id), [0, 0])
        entry[0] += 1
        entry[1] += milliseconds

    def sent_back(self, group: str, topic: str) -> None:
        """A group gave a message back."""
        self._sent_back[topic, group] = self._sent_back.get((topic, group), 0) + 1

    def note_acks(self, group: str, topic: str, count: int) -> None:
        """A group settled messages it had popped."""
        self._acked[topic, group] = self._acked.get((topic, group), 0) + count

    def note_check_points(self, group: str, topic: str, count: int) -> None:
        """A group changed how long messages it had popped are hidden."""
        self._hidden[topic, group] = self._hidden.get((topic, group), 0) + count

    @property
    def put_total(self) -> int:
        """Messages stored."""
        self.before_read()
        return self._put_total

    @property
    def put_size(self) -> int:
        """Bytes of the messages stored."""
        self.before_read()
        return self._put_size

    def of_users(self) -> tuple[int, int]:
        """Messages stored and handed out, without those in topics the broker keeps for itself."""
        put, got = self.put_by_queue(), self._got
        own_put = sum(entry.count for key, entry in put.items() if is_system_topic(key[0]))
        own_got = sum(entry[0] for key, entry in got.items() if is_system_topic(key[0]))
        return self._put_total - own_put, self.got_total - own_got

    def put_by_queue(self) -> dict[tuple[str, int], Sum]:
        """(topic, queue) -> what was stored."""
        self.before_read()
        return {key: Sum(*entry) for key, entry in self._put.items()}

    def got_by_queue(self) -> dict[tuple[str, str, int], Sum]:
        """(topic, group, queue) -> what was handed out."""
        return {key: Sum(*entry) for key, entry in self._got.items()}

    def waited_by_queue(self) -> dict[tuple[str, str, int], Sum]:
        """(topic, group, queue) -> pulls that waited for the disk, and their milliseconds."""
        return {key: Sum(*entry) for key, entry in self._waited.items()}

    def sent_back_by_group(self) -> dict[tuple[str, str], int]:
        """(topic, group) -> what was given back."""
        return dict(self._sent_back)

    def acked_by_group(self) -> dict[tuple[str, str], int]:
        """(topic, group) -> popped messages that were settled."""
        return dict(self._acked)

    def hidden_by_group(self) -> dict[tuple[str, str], int]:
        """(topic, group) -> changes of the invisible time."""
        return dict(self._hidden)

    def forget_topic(self, topic: str) -> None:
        """A topic was deleted."""
        for key in [key for key in self._put if key[0] == topic]:
            del self._put[key]
        for table in (self._got, self._waited):
            for place in [place for place in table if place[0] == topic]:
                del table[place]
        for counts in (self._sent_back, self._acked, self._hidden):
            for pair in [pair for pair in counts if pair[0] == topic]:
                del counts[pair]

    def forget_group(self, group: str) -> None:
        """A group was deleted."""
        for table in (self._got, self._waited):
            for place in [place for place in table if place[1] == group]:
                del table[place]
        for counts in (self._sent_back, self._acked, self._hidden):
            for pair in [pair for pair in counts if pair[1] == group]:
                del counts[pair]
