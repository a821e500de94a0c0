"""What only a primary does: delivering delayed messages, asking about transactions.

They run while this broker is primary.  A broker that becomes one starts them; one that ceases to be
primary stops them and waits until they have ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

Service = Callable[[], Coroutine[Any, Any, None]]


class PrimaryServices:
    """Starts and stops services with the role; itself a service that runs until cancelled."""

    def __init__(self, services: Sequence[tuple[str, Service]]) -> None:
        self._services = services
        self._is_wanted = False
        self._is_running = False
        self._changed = asyncio.Event()
        self._settled = asyncio.Event()
        self._settled.set()

    def want(self, wanted: bool) -> None:
        """Run them, or do not."""
        if wanted != self._is_wanted:
            self._is_wanted = wanted
            self._settled.clear()
            self._changed.set()

    async def stopped(self) -> None:
        """Stop them; return when they have ended."""
        self.want(False)
        if self._is_running:
            await self._settled.wait()

    async def run(self) -> None:
        """Follow what is wanted until cancelled; an error of a service ends it."""
        self._is_running = True
        try:
            while True:
                self._changed.clear()
                if self._is_wanted:
                    await self._run_services()
                self._settled.set()
                await self._changed.wait()
        finally:
            self._is_running = False
            self._settled.set()

    async def _run_services(self) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(service(), name=name) for name, service in self._services]
            self._settled.set()
            while self._is_wanted:
                await self._changed.wait()
                self._changed.clear()
            for task in tasks:
                task.cancel()
        self._changed.set()
