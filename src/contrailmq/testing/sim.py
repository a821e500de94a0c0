"""A world without real time, threads or sockets, replayable from one seed.

``SimLoop`` is an event loop whose clock moves only when every task waits: then it jumps to the
next timer.  A wait costs nothing and is the same every run.  A world in which all wait and no
timer is armed is an error, not a hang.  A blocking call given to an executor runs in no thread;
its effect comes at one moment and its result at a later one, both chosen by the seed.

``simulate(seed, scenario)`` runs ``await scenario(rng)`` in such a world and fails with the seed
in the error's notes.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

EPOCH_MS: Final = 1_700_000_000_000  # what wall clocks show when a simulation begins
LIMIT_S: Final = 24 * 3600.0


class SimDeadlock(AssertionError):
    """Every task waits and no timer is armed."""


class SimTimeout(AssertionError):
    """The scenario went on beyond its limit of virtual time."""


class SimLoop(asyncio.BaseEventLoop):
    """An event loop with virtual time."""

    def __init__(self, rng: random.Random, *, limit_s: float = LIMIT_S) -> None:
        super().__init__()
        self._selector = self  # BaseEventLoop waits by calling self._selector.select()
        self._rng = rng
        self.call_mean_s = 0.001  # how long a blocking call takes to take effect, and to return
        self._now = 0.0
        self._limit_s = limit_s
        self.turns = 0

    def time(self) -> float:
        """Virtual seconds since the simulation began."""
        return self._now

    def select(self, timeout: float | None) -> list[Any]:
        """Where a real loop sleeps: jump to the moment the next timer goes off."""
        self.turns += 1
        if timeout is None:
            raise SimDeadlock(f"all wait for ever: {_waiting(self)}")
        if timeout > 0:
            scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
            # Exactly the timer's moment: a sum of floats might fall short of it for ever.
            self._now = max(self._now, min(self._now + timeout, scheduled[0].when()))
            if self._now < scheduled[0].when() <= self._now + 1e-6:
                self._now = scheduled[0].when()
            if self._now > self._limit_s:
                raise SimTimeout(f"more than {self._limit_s:g} s: {_waiting(self)}")
        return []

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Run in no thread: the effect comes at one moment, the result at a later one."""
        future: asyncio.Future[T] = self.create_future()
        self.call_later(
            self._rng.expovariate(1 / self.call_mean_s), self._run_call, future, func, args
        )
        return future

    def _run_call(
        self, future: asyncio.Future[T], func: Callable[..., T], args: tuple[Any, ...]
    ) -> None:
        result: Any = None
        error: Exception | None = None
        try:
            result = func(*args)
        except Exception as caught:
            error = caught
        self.call_later(self._rng.expovariate(1 / self.call_mean_s), _settle, future, result, error)

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """There is none."""

    def _process_events(self, event_list: list[Any]) -> None:
        """No file descriptors, no events."""

    def _write_to_self(self) -> None:
        """No other thread can wake this loop."""


class SimClock:
    """A machine's clock in virtual time: its wall clock may be off, drift and jump."""

    def __init__(self, *, offset_ms: int = 0, drift: float = 0.0) -> None:
        self.offset_ms = offset_ms
        self.drift = drift

    def now_ms(self) -> int:
        """What this machine's wall clock shows."""
        elapsed = asyncio.get_running_loop().time() * (1 + self.drift)
        return EPOCH_MS + self.offset_ms + int(elapsed * 1000 + 1e-6)

    def monotonic_ms(self) -> int:
        """Milliseconds since the simulation began."""
        return int(asyncio.get_running_loop().time() * (1 + self.drift) * 1000 + 1e-6)

    def jump(self, step_ms: int) -> None:
        """Set the wall clock forward or back."""
        self.offset_ms += step_ms


def simulate(
    seed: int, scenario: Callable[[random.Random], Awaitable[T]], *, limit_s: float = LIMIT_S
) -> T:
    """Run ``scenario(rng)`` in virtual time to its end; tasks it leaves are cancelled."""
    rng = random.Random(seed)
    loop = SimLoop(random.Random(rng.getrandbits(64)), limit_s=limit_s)
    try:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            return runner.run(_awaited(scenario, rng))
    except BaseException as error:
        error.add_note(f"seed {seed}, virtual time {loop.time():.3f} s")
        raise


async def _awaited(scenario: Callable[[random.Random], Awaitable[T]], rng: random.Random) -> T:
    return await scenario(rng)


def _settle(future: asyncio.Future[T], result: Any, error: Exception | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


def _waiting(loop: asyncio.AbstractEventLoop) -> str:
    def name(work: Coroutine[Any, Any, Any] | Any) -> str:
        return getattr(work, "__qualname__", str(work))

    return ", ".join(
        sorted(f"{task.get_name()}:{name(task.get_coro())}" for task in asyncio.all_tasks(loop))
    )
