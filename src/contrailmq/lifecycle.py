"""Services start in order, stop in reverse, and fail loudly; every task has an owner."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

T = TypeVar("T")


@asynccontextmanager
async def running(service: Coroutine[Any, Any, None], *, name: str) -> AsyncIterator[None]:
    """Run a service for the length of a block; if it fails, the block is cancelled."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(service, name=name)
        try:
            yield
        finally:
            task.cancel()


async def uninterrupted(work: asyncio.Future[T]) -> T:
    """Await work to its end even if cancelled meanwhile; its error outranks the cancellation."""
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        work.result()
        raise


def raise_cancellation() -> None:
    """Raise the cancellation of this task that an error of ``uninterrupted`` work has outranked.

    For those who log such an error and go on: a loop that forgot the cancellation would never end.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


class Tasks:
    """The owner of short tasks whose number changes while it lives, such as one per request.

    A task must handle its own errors: one that escapes is given to the loop's exception
    handler, not to the owner.  ``aclose`` waits a while for those under way, cancels the rest and
    returns when all have ended.
    """

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], None] = {}  # a set has another order every run

    def start(self, work: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
        """Begin ``work``; the owner keeps it until it ends."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._forget)
        return task

    def __len__(self) -> int:
        return len(self._tasks)

    async def aclose(self, *, drain_s: float = 0.0) -> None:
        """Let the tasks end within ``drain_s`` seconds, then cancel what is left and await it."""
        if self._tasks and drain_s > 0:
            await asyncio.wait(list(self._tasks), timeout=drain_s)
        while self._tasks:
            for task in list(self._tasks):
                task.cancel()
            await asyncio.wait(list(self._tasks))
            await asyncio.sleep(0)  # lets the done callbacks take the ended ones out

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
