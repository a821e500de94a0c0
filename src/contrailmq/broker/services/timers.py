"""Timer messages: the service that delivers them when their moment comes.

The store's timers do the work (``store/timers``); this service calls them when the timer topic has
grown, when the next message is due, and once per slot.  A broker without timer messages does
nothing of the kind: there is no wheel before the first one, and nothing to flush.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from contrailmq.clock import Clock

WAIT_MAX_S: Final = 1.0
FINISH_S: Final = 2.0  # a slot is over sooner, unless the disk is full


class Wheel(Protocol):
    """What this module needs of the store's timers."""

    @property
    def is_open(self) -> bool:
        """Whether there are timers at all."""
        ...

    @property
    def is_writable(self) -> bool:
        """Whether the store takes messages: a replica's timers are its primary's."""
        ...

    def exist(self) -> bool:
        """Whether the store has timers."""
        ...

    def open(self, now_ms: int) -> None:
        """Open their files."""
        ...

    def step(self, now_ms: int) -> float:
        """Move what is new and what is due; seconds until there is more."""
        ...

    def leave_slot(self) -> bool:
        """Whether nothing would be delivered twice after a stop now."""
        ...

    async def flush(self) -> None:
        """Make it durable."""
        ...

    def close(self) -> None:
        """Give up the files."""
        ...


class Timers:
    """Delivers what is due. Runs on the loop; ``run`` owns its tasks."""

    def __init__(self, wheel: Wheel, *, clock: Clock, flush_ms: int) -> None:
        self._wheel = wheel
        self._clock = clock
        self._flush_s = flush_ms / 1000
        self._wake = asyncio.Event()
        self._opened = asyncio.Event()

    def start(self) -> None:
        """Open what is on disk, if there is anything; raises StoreError."""
        if self._wheel.exist() and self._wheel.is_writable:
            self._wheel.open(self._clock.now_ms())

    async def run(self) -> None:
        """Deliver and flush until cancelled; what is on disk is open after its first step."""
        self.start()
        self._opened.clear()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._deliver(), name="timer delivery")
                group.create_task(self._flush(), name="timer flush")
        finally:
            if not self._wheel.is_writable:
                self._wheel.close()  # a replica from now on: its timers are its primary's

    async def _deliver(self) -> None:
        while True:
            self._wake.clear()
            if not self._wheel.is_open:
                self.start()
            if not self._wheel.is_open:
                # There are timers, and the store takes no messages: nothing tells when it does.
                await self._sleep(WAIT_MAX_S if self._wheel.exist() else None)
                continue
            self._opened.set()
            wait_s = self._wheel.step(self._clock.now_ms())
            if wait_s <= 0:
                await asyncio.sleep(0)
                continue
            await self._sleep(min(wait_s, WAIT_MAX_S))

    async def _sleep(self, wait_s: float | None) -> None:
        """Wait until the timer topic has grown, at most so long."""
        handle = None
        if wait_s is not None:
            handle = asyncio.get_running_loop().call_later(wait_s, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            if handle is not None:
                handle.cancel()

    async def _flush(self) -> None:
        await self._opened.wait()
        while True:
            await asyncio.sleep(self._flush_s)
            await self._wheel.flush()

    async def finish(self) -> None:
        """Stop in good order: end the slot that is being delivered, flush, close."""
        loop = asyncio.get_running_loop()
        end = loop.time() + FINISH_S
        while not self._wheel.leave_slot() and loop.time() < end:
            wait_s = self._wheel.step(self._clock.now_ms())
            await asyncio.sleep(min(wait_s, WAIT_MAX_S))
        await self._wheel.flush()
        self._wheel.close()

    def wake(self) -> None:
        """The timer topic has grown."""
        self._wake.set()
