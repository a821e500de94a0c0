"""Services start in order, stop in reverse, and fail loudly."""

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
