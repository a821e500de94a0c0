"""How many messages of a queue a group has popped and not settled (PopInflightMessageCounter)."""

from __future__ import annotations


class InFlight:
    """Counts by topic, group and queue; gone with a restart, as the original's are.

    Only pops of topics and groups that exist add entries, so the tables of topics and groups bound
    it; an entry that comes down to nothing is removed.
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, int], int] = {}

    def add(self, group: str, topic: str, queue_id: int, count: int) -> None:
        """Messages were given out (or, with a negative count, settled or brought back)."""
        key = (topic, group, queue_id)
        total = self._counts.get(key, 0) + count
        if total > 0:
            self._counts[key] = total
        else:
            self._counts.pop(key, None)

    def count(self, group: str, topic: str, queue_id: int) -> int:
        """Messages of a queue that are out."""
        return self._counts.get((topic, group, queue_id), 0)

    def total(self) -> int:
        """Messages of all queues that are out."""
        return sum(self._counts.values())

    def clear(self, group: str, topic: str, queue_id: int) -> None:
        """Nothing of a queue counts any more: it is popped in order, or was reset."""
        self._counts.pop((topic, group, queue_id), None)

    def reset(self) -> None:
        """Nothing is out as far as this broker knows: another was primary meanwhile."""
        self._counts.clear()

    def forget(self, *, topic: str | None = None, group: str | None = None) -> None:
        """A topic or a group was deleted."""
        for key in [key for key in self._counts if key[0] == topic or key[1] == group]:
            del self._counts[key]
