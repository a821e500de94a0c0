"""Messages with a time of their own: how many came, how many were delivered; by real topic."""

from __future__ import annotations

from typing import Final

from contrailmq.metrics.model import Histogram

DELAY_BOUNDS_S: Final = (60, 600, 3600, 43_200, 86_400, 259_200)


class TimerTally:
    """Sums since the broker started. Topics are ones that exist; owned by the event loop."""

    def __init__(self) -> None:
        self.came: dict[str, int] = {}
        self.delivered: dict[str, int] = {}
        self.delays_s: dict[str, Histogram] = {}

    def note(self, topic: str, delay_s: float) -> None:
        """A message that is to be delivered after some seconds has come."""
        self.came[topic] = self.came.get(topic, 0) + 1
        if topic not in self.delays_s:
            self.delays_s[topic] = Histogram(DELAY_BOUNDS_S)
        self.delays_s[topic].add(max(delay_s, 0.0))

    def note_delivery(self, topic: str, count: int) -> None:
        """Messages were delivered."""
        self.delivered[topic] = self.delivered.get(topic, 0) + count

    def forget(self, topic: str) -> None:
        """A topic was deleted."""
        for table in (self.came, self.delivered, self.delays_s):
            table.pop(topic, None)
