"""Which requests held the loop.

All requests of a process are handled by one loop, so one that takes long makes all others wait.
Every request that goes through a handler is timed; one that took ``HELD_S`` or more is named in
the log with its code, its peer and its size, not too often.
"""

from __future__ import annotations

import logging
from typing import Final

from contrailmq.net.noise import Noise

log = logging.getLogger(__name__)

HELD_S: Final = 0.05


class LoopWatch:
    """How many requests held the loop (``count``), and the longest time (``worst_s``)."""

    def __init__(self, noise: Noise) -> None:
        self.count = 0
        self.worst_s = 0.0
        self._noise = noise

    def slow(self, took_s: float, *, code: int, peer: str, size: int) -> None:
        """The answer to a request took long, since it waited for something."""
        held_back = self._noise.held_back(f"slow {code}")
        if held_back is not None:
            log.warning(
                "slow request: code=%s peer=%s body=%s ms=%.0f similar=%s",
                code,
                peer,
                size,
                1000 * took_s,
                held_back,
            )

    def look(self, took_s: float, *, code: int, peer: str, size: int) -> None:
        """A request took ``HELD_S`` or longer."""
        self.count += 1
        self.worst_s = max(self.worst_s, took_s)
        held_back = self._noise.held_back(f"code {code}")
        if held_back is not None:
            log.warning(
                "request held the loop: code=%s peer=%s body=%s ms=%.0f similar=%s",
                code,
                peer,
                size,
                1000 * took_s,
                held_back,
            )
