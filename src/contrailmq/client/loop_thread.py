"""An event loop in a thread of its own, for callers that wait.

A loop thread belongs to the process that made it: after a fork its thread is gone in the child,
and every call says so instead of hanging.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from contrailmq.errors import ClientError
from contrailmq.lifecycle import Tasks
from contrailmq.net.loop import loop_factory

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for other threads; close it when the last client on it is closed."""

    def __init__(self, name: str = "contrailmq") -> None:
        self._pid = os.getpid()
        self._tasks = Tasks()
        self._ready: concurrent.futures.Future[asyncio.AbstractEventLoop] = (
            concurrent.futures.Future()
        )
        self._stop: asyncio.Event | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._thread.start()
        self._loop = self._ready.result()

    def call(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the loop and wait for its result."""
        return self.begin(make).result()

    def begin(self, make: Callable[[], Coroutine[Any, Any, T]]) -> concurrent.futures.Future[T]:
        """Run a coroutine on the loop; the future may be waited for in any thread."""
        self.check()
        future: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._loop.call_soon_threadsafe(self._begin, make, future)
        return future

    def check(self) -> None:
        """Raise unless the loop can be used from here."""
        if os.getpid() != self._pid:
            raise ClientError(
                f"this client was made in process {self._pid} and is used in process"
                f" {os.getpid()} after a fork: its connections and its thread stayed behind;"
                " make a client in each process"
            )
        if self._closed:
            raise ClientError("the client is closed; make a new one")
        if threading.current_thread() is self._thread:
            raise ClientError("a blocking call on the client's own loop would wait for ever")

    def close(self) -> None:
        """Stop the loop and wait for its thread; in a forked child there is nothing to stop."""
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _begin(
        self,
        make: Callable[[], Coroutine[Any, Any, T]],
        future: concurrent.futures.Future[T],
    ) -> None:
        if future.set_running_or_notify_cancel():
            self._tasks.start(_run(make, future))

    def _main(self) -> None:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        self._ready.set_result(asyncio.get_running_loop())
        await self._stop.wait()
        await self._tasks.aclose()


class Bridge:
    """What every blocking object has: a loop, its own or one it shares."""

    def __init__(self, loop: LoopThread | None) -> None:
        self._owns_loop = loop is None
        self._thread = loop if loop is not None else LoopThread()

    def _make(self, make: Callable[[], T]) -> T:
        """Build the asynchronous twin on its loop; a bad argument closes the thread again."""

        async def build() -> T:
            return make()

        try:
            return self._thread.call(build)
        except BaseException:
            self._release()
            raise

    def _call(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self._thread.call(make)

    def _release(self) -> None:
        if self._owns_loop:
            self._thread.close()


async def _run(
    make: Callable[[], Coroutine[Any, Any, T]], future: concurrent.futures.Future[T]
) -> None:
    try:
        result = await make()
    except asyncio.CancelledError:
        future.set_exception(ClientError("the client was closed while this call waited"))
        raise
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
