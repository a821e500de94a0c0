"""A bar on a terminal while a pipeline works, nothing anywhere else; and stopping with Ctrl-C.

The first Ctrl-C asks: the pipeline finishes or gives up what it is at, writes down where it is and
returns a report.  The second one interrupts as usual.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Final, TextIO

from contrailmq.admin.output import byte_size, span
from contrailmq.clock import Clock, SystemClock

BAR_WIDTH: Final = 20
REDRAW_MS: Final = 100


class Stop:
    """Whether somebody asked to stop; ``request`` may come from a signal or another thread."""

    def __init__(self) -> None:
        self._asked = threading.Event()

    @property
    def is_requested(self) -> bool:
        """Whether to stop now."""
        return self._asked.is_set()

    def request(self) -> None:
        """Ask to stop."""
        self._asked.set()

    def wait(self, seconds: float) -> bool:
        """Wait so long, less if asked to stop; whether that was so."""
        return self._asked.wait(seconds)

    @contextlib.contextmanager
    def on_interrupt(self) -> Iterator[Stop]:
        """Meanwhile the first Ctrl-C, or SIGTERM, is a request; for the main thread only."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return

        def ask(number: int, frame: FrameType | None) -> None:
            if self.is_requested:
                raise KeyboardInterrupt
            self.request()

        before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class Progress:
    """Rows, bytes, what is left and for how long, on one line that is drawn again and again."""

    def __init__(
        self, label: str, out: TextIO | None = None, *, clock: Clock | None = None
    ) -> None:
        """Without ``out``, or when it is no terminal, nothing is drawn; numbers are kept anyway."""
        self._label = label
        self._out = out if out is not None and out.isatty() else None
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._began_ms = self._clock.monotonic_ms()
        self._drawn_ms = -REDRAW_MS
        self.rows = 0
        self.size = 0
        self.lag: int | None = None

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return max(self._clock.monotonic_ms() - self._began_ms, 1) / 1000

    def restart(self) -> None:
        """Time counts from now: what was before was not the work."""
        self._began_ms = self._clock.monotonic_ms()

    def add(self, rows: int, size: int = 0, *, lag: int | None = None) -> None:
        """So much more is done, and so many messages are still to come."""
        self.rows += rows
        self.size += size
        if lag is not None:
            self.lag = lag
        self.draw()

    def draw(self) -> None:
        """Draw the line, unless that was just done."""
        now_ms = self._clock.monotonic_ms()
        if self._out is None or now_ms - self._drawn_ms < REDRAW_MS:
            return
        self._drawn_ms = now_ms
        width = shutil.get_terminal_size((100, 24)).columns - 1
        self._out.write(f"\r\033[K{self.line()[:width]}")
        self._out.flush()

    def line(self) -> str:
        """What is drawn."""
        parts = [f"{self.rows:,} rows"]
        if self.size:
            parts.append(f"{byte_size(self.size / self.seconds)}/s")
        bar = ""
        if self.lag is not None:
            total = self.rows + self.lag
            share = self.rows / total if total else 1.0
            full = int(share * BAR_WIDTH)
            bar = f"{'█' * full}{'░' * (BAR_WIDTH - full)} {share:4.0%}  "
            parts.append(f"lag {self.lag:,}")
            if self.rows and self.lag:
                parts.append(f"{span(self.lag * self.seconds / self.rows)} left")
        return f"{self._label}  {bar}" + "  ".join(parts)

    def finish(self) -> None:
        """Remove the line: the summary follows."""
        if self._out is not None:
            self._out.write("\r\033[K")
            self._out.flush()
