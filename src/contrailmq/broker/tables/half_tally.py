"""How many half messages wait, and what became of the others; by their real topic."""

from __future__ import annotations

from typing import Final

from contrailmq.metrics.model import Histogram

FINISH_BOUNDS_S: Final = (5, 60, 600, 3600, 43_200, 86_400)


class HalfTally:
    """Sums since the broker started. Topics are ones that exist; owned by the event loop."""

    def __init__(self) -> None:
        self.commits: dict[str, int] = {}
        self.rollbacks: dict[str, int] = {}
        self.waiting: dict[str, int] = {}
        self.finish_s: dict[str, Histogram] = {}

    def begun(self, topic: str) -> None:
        """A half message was sent."""
        self.waiting[topic] = self.waiting.get(topic, 0) + 1

    def ended(self, topic: str, *, commit: bool, age_s: float) -> None:
        """A transaction ended; one of an earlier run of the broker does not count as waiting."""
        table = self.commits if commit else self.rollbacks
        table[topic] = table.get(topic, 0) + 1
        self.discarded(topic)
        if commit:
            if topic not in self.finish_s:
                self.finish_s[topic] = Histogram(FINISH_BOUNDS_S)
            self.finish_s[topic].add(max(age_s, 0.0))

    def discarded(self, topic: str) -> None:
        """A half message waits no more."""
        self.waiting[topic] = max(self.waiting.get(topic, 0) - 1, 0)

    def forget(self, topic: str) -> None:
        """A topic was deleted."""
        for table in (self.commits, self.rollbacks, self.waiting, self.finish_s):
            table.pop(topic, None)
