"""The long-running tasks of one client object: owned, watched, and cancelled together.

A client may be started in one task and closed in another (the blocking bridge does), which a
``TaskGroup`` forbids; a crew allows it and keeps the promise that matters: no task outlives
``aclose``.  A task that fails is logged once and remembered; ``check`` raises the first failure in
whoever uses the client next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from contrailmq.errors import ClientError
from contrailmq.lifecycle import Tasks, uninterrupted

log = logging.getLogger(__name__)

T = TypeVar("T")


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Run work that must not be left half done: a cancellation takes effect after it.

    A client whose closing is cut short would stay in its group and keep its queues.
    """
    return await uninterrupted(Tasks().start(work, name="closing"))


class Crew:
    """A set of tasks with one owner."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks = Tasks()
        self._failure: BaseException | None = None
        self._closed = False

    def start(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Run ``work`` until it ends or the crew is closed."""
        if self._closed:
            work.close()
            raise ClientError(f"{self._name} is closed")
        task = self._tasks.start(work, name=f"{self._name}: {name}")
        task.add_done_callback(self._done)
        return task

    def spawn(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Run short work whose errors belong to whoever awaits the task, not to the crew."""
        if self._closed:
            work.close()
            raise ClientError(f"{self._name} is closed")
        return self._tasks.start(work, name=name)

    def check(self) -> None:
        """Raise the first failure of a task, if there was one."""
        if self._failure is not None:
            raise self._failure

    @property
    def closed(self) -> bool:
        """Whether ``aclose`` was called."""
        return self._closed

    def __len__(self) -> int:
        return len(self._tasks)

    async def aclose(self, *, drain_s: float = 0.0) -> None:
        """Let tasks end within ``drain_s``, then cancel the rest and wait for their ends."""
        self._closed = True
        await self._tasks.aclose(drain_s=drain_s)

    def _done(self, task: asyncio.Task[Any]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            if self._failure is None:
                self._failure = error
            log.error("client task failed task=%s", task.get_name(), exc_info=error)

    def __repr__(self) -> str:
        return f"<Crew {self._name} tasks={len(self._tasks)} closed={self._closed}>"
