"""Load on a cluster: senders in a closed or an open loop, and what they measured.

Theory of operation.  Without a rate, each of ``workers`` sends, waits for the answer and sends
again (closed loop): that measures throughput.  With a rate, sends are due at fixed moments whether
or not earlier ones were answered (open loop), and a latency counts from the moment its send was
due: a broker that stalls for a second shows as a second, not as one slow request (no coordinated
omission).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from contrailmq.admin.bench.histogram import Histogram
from contrailmq.clock import SystemClock
from contrailmq.errors import ContrailError


@dataclass(slots=True)
class Tally:
    """What has been measured so far."""

    latency: Histogram = field(default_factory=Histogram)
    done: int = 0
    failed: int = 0
    last_error: str = ""
    began: float = 0.0
    ended: float = 0.0

    def rate(self, now: float) -> float:
        """Messages a second since the beginning."""
        return self.done / max((self.ended or now) - self.began, 1e-9)

    def summary(self) -> dict[str, Any]:
        """The figures as a JSON object."""
        found: dict[str, Any] = {
            "messages": self.done,
            "failed": self.failed,
            "seconds": round(self.ended - self.began, 3),
            "perSecond": round(self.rate(self.ended), 1),
            **self.latency.summary(),
        }
        if self.last_error:
            found["lastError"] = self.last_error
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How much, how long, how fast; 0 stands for no limit."""

    workers: int
    quantity: int = 0
    duration_s: float = 0.0
    rate: float = 0.0


Send = Callable[[float], Awaitable[int]]
"""Sends once; is told when the send was due; how many messages that were."""


async def drive(send: Send, pace: Pace, tally: Tally) -> None:
    """Send until the quantity or the duration is reached."""
    now = SystemClock().precise_s  # the loop's own clock may count whole milliseconds
    tally.began = now()
    until = tally.began + pace.duration_s if pace.duration_s else float("inf")
    started = 0

    def next_due() -> float | None:
        """When the next send is due; None when there is none."""
        nonlocal started
        due = tally.began + started / pace.rate if pace.rate else now()
        if due >= until or (pace.quantity and started >= pace.quantity):
            return None
        started += 1
        return due

    async def work() -> None:
        while (due := next_due()) is not None:
            wait_s = due - now()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            try:
                count = await send(due)
            except ContrailError as error:
                tally.failed += 1
                tally.last_error = str(error)
                continue
            tally.done += count
            tally.latency.record(now() - due, count)

    async with asyncio.TaskGroup() as group:
        for _ in range(pace.workers):
            group.create_task(work())
    tally.ended = now()


def random_body(size: int, rng: random.Random) -> bytes:
    """A body that compresses as text does."""
    letters = b"abcdefghijklmnopqrstuvwxyz0123456789 "
    return bytes(rng.choices(letters, k=size))
