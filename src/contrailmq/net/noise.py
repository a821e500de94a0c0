"""Say a thing once in a while, however often it happens."""

from __future__ import annotations

from contrailmq.clock import Clock

KEYS_MAX = 1024


class Noise:
    """A bound on log lines: each key may speak once per interval, and is told what it kept back.

    At most ``KEYS_MAX`` keys are remembered; the one that spoke longest ago is forgotten first,
    so that a peer that changes its address costs lines, never memory.
    """

    def __init__(self, clock: Clock, *, interval_ms: int = 10_000) -> None:
        self._clock = clock
        self._interval_ms = interval_ms
        self._spoken: dict[str, tuple[int, int]] = {}

    def held_back(self, key: str) -> int | None:
        """None to keep quiet now, else how many times ``key`` was kept quiet since it spoke."""
        now_ms = self._clock.monotonic_ms()
        spoken = self._spoken.get(key)
        if spoken is not None and now_ms - spoken[0] < self._interval_ms:
            self._spoken[key] = (spoken[0], spoken[1] + 1)
            return None
        self._spoken.pop(key, None)
        if len(self._spoken) >= KEYS_MAX:
            del self._spoken[next(iter(self._spoken))]
        self._spoken[key] = (now_ms, 0)
        return spoken[1] if spoken is not None else 0
