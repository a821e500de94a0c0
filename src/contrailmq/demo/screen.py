"""What the tour shows: headings, notes, progress bars and the table at the end.

On a terminal a bar is redrawn in place; elsewhere (a pipe, a log) only its last state is a line.
Nothing is wider than the terminal: texts are wrapped, bars get shorter.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable
from typing import Final, TextIO

from contrailmq.clock import Clock, SystemClock

BAR_WIDTH: Final = 28
BAR_WIDTH_MIN: Final = 6
LABEL_WIDTH: Final = 28
REDRAW_MS: Final = 80
RATE_AFTER_S: Final = 0.2


class Screen:
    """Lines of the tour, in colour where there is a terminal."""

    def __init__(self, out: TextIO | None = None, *, clock: Clock | None = None) -> None:
        self.out = sys.stdout if out is None else out
        self.clock = clock or SystemClock()
        self.is_terminal = self.out.isatty()
        self._has_colour = self.is_terminal and not os.environ.get("NO_COLOR")
        self.width = min(shutil.get_terminal_size((100, 24)).columns, 110)
        self._has_draft = False

    def title(self, text: str) -> None:
        """A heading."""
        self._line("")
        self._line(self._coloured(f"── {text} ".ljust(self.width, "─"), "1;36"))

    def gap(self) -> None:
        """An empty line."""
        self._line("")

    def note(self, text: str) -> None:
        """Something that happened."""
        self._wrapped("  ", text)

    def good(self, text: str) -> None:
        """Something that happened as it should."""
        self._wrapped(f"  {self._coloured('✓', '32')} ", text, indent=4)

    def wait(self, text: str) -> None:
        """Something that takes a while; on a terminal, until the next line takes its place."""
        if self.is_terminal:
            self.draw(f"  {text}", last=False)

    def bar(self, label: str, total: int) -> Bar:
        """A progress bar; ``finish`` it."""
        return Bar(self, label, total)

    def table(self, rows: Iterable[tuple[str, str]]) -> None:
        """Names and values."""
        for name, value in rows:
            self._wrapped(f"  {name:<{LABEL_WIDTH}} ", value, indent=LABEL_WIDTH + 3)

    def draw(self, text: str, *, last: bool) -> None:
        """Redraw the line of a bar."""
        if self.is_terminal:
            self.out.write(f"\r\033[K{text}" + ("\n" if last else ""))
            self._has_draft = not last
        elif last:
            self.out.write(text + "\n")
        self.out.flush()

    def _wrapped(self, head: str, text: str, *, indent: int = 2) -> None:
        room = max(self.width - indent, 20)
        lines = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False)
        for number, line in enumerate(lines or [""]):
            self._line((head if number == 0 else " " * indent) + line)

    def _line(self, text: str) -> None:
        self.out.write(("\r\033[K" if self._has_draft else "") + text + "\n")
        self._has_draft = False
        self.out.flush()

    def _coloured(self, text: str, code: str) -> str:
        return f"\033[{code}m{text}\033[0m" if self._has_colour else text


class Bar:
    """How far something is."""

    def __init__(self, screen: Screen, label: str, total: int) -> None:
        self._screen = screen
        self._label = label
        self._total = max(total, 1)
        self._began_ms = screen.clock.monotonic_ms()
        self._drawn_ms = 0
        self.count = 0

    def set(self, count: int) -> None:
        """So many are done."""
        self.count = count
        now_ms = self._screen.clock.monotonic_ms()
        if now_ms - self._drawn_ms >= REDRAW_MS:
            self._drawn_ms = now_ms
            self._draw(last=False)

    def advance(self, count: int = 1) -> None:
        """So many more are done."""
        self.set(self.count + count)

    def finish(self, text: str = "") -> float:
        """Draw it a last time; how many seconds it took."""
        self._draw(last=True, text=text)
        return self.seconds

    @property
    def seconds(self) -> float:
        """Since the bar began."""
        return max(self._screen.clock.monotonic_ms() - self._began_ms, 1) / 1000

    def _draw(self, *, last: bool, text: str = "") -> None:
        share = min(self.count / self._total, 1.0)
        total = f"{self._total:,}"
        head = f"  {self._label:<{LABEL_WIDTH}} "
        tail = f" {self.count:>{len(total)},}/{total}  {self._rate(last=last):>9}  {text}"
        most = self._screen.width - 1
        if text and len(head) + BAR_WIDTH_MIN + len(tail) > most:
            tail = f" {self.count:>{len(total)},}/{total}  {text}"  # what came of it says more
        room = most - len(head) - len(tail.rstrip())
        width = max(BAR_WIDTH_MIN, min(BAR_WIDTH, room))
        full = int(share * width)
        bar = "█" * full + "░" * (width - full)
        self._screen.draw(f"{head}{bar}{tail}".rstrip()[:most], last=last)

    def _rate(self, *, last: bool) -> str:
        """A second's worth; of too short a time it would only amaze."""
        if self.seconds < RATE_AFTER_S and not last:
            return ""
        per_second = self.count / self.seconds
        return (
            f"{per_second:,.0f}/s" if per_second >= 1 or not self.count else f"{per_second:.1f}/s"
        )
