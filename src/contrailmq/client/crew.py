"""The tasks of one client object: owned, awaited, and cancelled together.

A client may be started in one task and closed in another (the blocking bridge does), which a
``TaskGroup`` forbids; a crew allows it and keeps the promise that matters: no task outlives
``aclose``.  A task that fails is logged once and remembered; ``check`` raises the first failure in
whoever uses the client next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

log = logging.getLogger(__name__)


class Crew:
    """A set of tasks with one owner."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: set[asyncio.Task[Any]] = set()
        self._failure: BaseException | None = None
        self._closed = False

    def start(self, work: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Run ``work`` until it ends or the crew is closed."""
        if self._closed:
            work.close()
            raise RuntimeError(f"{self._name} is closed")
        loop = asyncio.get_running_loop()
        task = loop.create_task(work, name=f"{self._name}: {name}")
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

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

    async def join(self, timeout_s: float) -> bool:
        """Wait for the running tasks to end by themselves; whether they all did."""
        if not self._tasks:
            return True
        _, pending = await asyncio.wait(self._tasks, timeout=timeout_s)
        return not pending

    async def aclose(self) -> None:
        """Cancel all tasks and wait for their ends."""
        self._closed = True
        current = asyncio.current_task()
        tasks = [task for task in self._tasks if task is not current]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            if self._failure is None:
                self._failure = error
            log.error("client task failed task=%s", task.get_name(), exc_info=error)

    def __repr__(self) -> str:
        return f"<Crew {self._name} tasks={len(self._tasks)} closed={self._closed}>"
