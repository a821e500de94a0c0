"""The event loop of a process: uvloop where it is installed, asyncio's own elsewhere.

Only mains call this; libraries and tests run on whatever loop is running.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes the fastest loop here; None stands for asyncio's own."""
    try:
        import uvloop
    except ImportError:  # not on Windows
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a process's main coroutine to its end on the fastest loop."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(main)
