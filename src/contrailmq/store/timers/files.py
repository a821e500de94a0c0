"""The files of the timers: ``timerwheel``, ``timerlog`` and ``config/timercheck``.

**Opening** is recovery, always.  Units of the timer log that the wheel does not have are put into
their slots; the timer log ends at the first thing that is no unit, or is the unit of a message the
log has lost.  A wheel that points behind that end, or is missing, is made again from the whole
timer log.  A timer log that has lost units it once vouched for is given up, and everything that
still waits is taken from the timer topic's queue again.

What was in the wheel already when a crash came is not put there a second time: its log offsets are
``known`` until the queue is behind them.
"""

from __future__ import annotations

import logging
import posixpath
import struct
from typing import Final

from contrailmq._native.store.wheel import BLANK_MIN, SLOT_SIZE, SLOTS, UNIT_SIZE, Wheel
from contrailmq.errors import StoreError
from contrailmq.store.files import Files, Segment
from contrailmq.store.layout import Layout, segment_name
from contrailmq.store.segments import Segments
from contrailmq.store.settings import StoreSettings
from contrailmq.store.timers.check import SIZE as CHECK_SIZE
from contrailmq.store.timers.check import Progress, TimerCheck

log = logging.getLogger(__name__)
WHEEL_SIZE: Final = SLOTS * SLOT_SIZE
RESERVE: Final = 1024 * 1024
KNOWN_BACK: Final = 10_000 * UNIT_SIZE  # the original counts its queue offset after its units


class TimerFiles:
    """The open files. Owned by the loop."""

    def __init__(self, settings: StoreSettings, layout: Layout, files: Files) -> None:
        self._files = files
        self._wheel_path = posixpath.join(layout.root, "timerwheel")
        self._check_path = posixpath.join(layout.config, "timercheck")
        self._folder = posixpath.join(layout.root, "timerlog")
        self._precision_ms = settings.timer_slot_ms
        folder = self._folder
        self.segments = Segments(
            files,
            size=settings.timer_file_size,
            path_of=lambda base: f"{folder}/{segment_name(base)}",
        )
        self._wheel_segment: Segment | None = None
        self._dirty_from = 0
        self.wheel: Wheel
        self.check: TimerCheck
        self.progress = Progress()
        self.known: set[int] = set()
        self.is_lost = False  # the queue has to be read again from its beginning

    def adopt(self, numbers: bytes) -> None:
        """Write another broker's seven numbers; the files they speak of are not here.

        The wheel and the timer log of a time as a primary go: everything is made from the queue.
        """
        read_ms, flushed = struct.unpack_from(">2q", numbers)
        if read_ms <= 0:
            return  # it has no timers
        numbers = numbers[:8] + struct.pack(">q", max(flushed, 1)) + numbers[16:]
        for name, _ in self._files.entries(self._folder):
            self._files.remove(f"{self._folder}/{name}")
        self._files.remove(self._wheel_path)
        self._files.replace(self._check_path, numbers.ljust(CHECK_SIZE, b"\0"))

    def exist(self) -> bool:
        """Whether a broker has had timers in this store."""
        return self._files.exists(self._check_path) or self._files.exists(self._wheel_path)

    def open(self, *, log_end: int, now_ms: int) -> None:
        """Open or make the files, and recover; ``log_end`` is where the recovered log ends."""
        size = dict(self._files.entries(posixpath.dirname(self._wheel_path))).get("timerwheel", 0)
        if size not in (0, WHEEL_SIZE):
            raise StoreError(
                f"{self._wheel_path} has {size} bytes, a wheel has {WHEEL_SIZE}; remove it and it "
                "is made again from the timer log"
            )
        self._wheel_segment = self._files.create(self._wheel_path, WHEEL_SIZE)
        self.check = TimerCheck(self._files, self._check_path)
        self.segments.load([self._folder], has_copy=True, drop_damaged=True)
        self.wheel = Wheel(self._wheel_segment.buffer, self._precision_ms, self.segments.size)
        for base in self.segments.offsets:
            self._add(base)
        self._recover(log_end, now_ms, is_new=size == 0)

    def _recover(self, log_end: int, now_ms: int, *, is_new: bool) -> None:
        check, wheel = self.check, self.wheel
        wheel.first = wheel.end = self.segments.first_offset
        progress = check.find_progress()
        if progress is not None and progress.log_end > log_end:
            progress = None  # a power cut took what it knew of
        read_ms = progress.read_ms if progress is not None else wheel.floor(check.read_ms)
        start = wheel.first if is_new else max(check.flushed - self.segments.size, wheel.first)
        self._revise(start, read_ms, log_end)
        if not is_new and wheel.points_beyond(read_ms, wheel.end):
            self._clear_wheel()
            self._revise(wheel.first, read_ms, log_end)
        if progress is not None and progress.units_end > wheel.end:
            progress = None
            read_ms = wheel.floor(check.read_ms)
        if check.flushed > wheel.end or (check.is_new and progress is None and wheel.end > 0):
            log.warning("timer log is cut off: end=%s flushed=%s", wheel.end, check.flushed)
            self._start_again()
            progress = Progress(check.queue_offset, wheel.floor(check.read_ms))
        elif progress is None:
            least = min(check.queue_offset, check.master_queue_offset)
            progress = Progress(least, read_ms, units_end=check.flushed - KNOWN_BACK)
        if progress.read_ms <= 0:
            progress = progress._replace(read_ms=wheel.floor(now_ms))
        self.progress = progress
        self._cut_behind(wheel.end)
        self.known = self._known(max(progress.units_end, wheel.first))
        self._dirty_from = max(wheel.first, min(check.flushed, wheel.end))

    def _revise(self, start: int, read_ms: int, log_end: int) -> None:
        """Walk the timer log from a position on; ``wheel.end`` is where it ends."""
        wheel = self.wheel
        base = self.segments.base_of(start) if self.segments.offsets else 0
        wheel.end = base
        while base in wheel.files:
            reached = wheel.revise(base, 0, read_ms, log_end)
            wheel.end = base + reached
            if reached != self.segments.size:
                break
            base += self.segments.size

    def _known(self, start: int) -> set[int]:
        found: set[int] = set()
        base = self.segments.base_of(start)
        while base in self.wheel.files and base < self.wheel.end:
            begin = -(-max(start - base, 0) // UNIT_SIZE) * UNIT_SIZE
            found.update(self.wheel.offsets(base, begin, self.wheel.end - base))
            base += self.segments.size
        return found

    def _start_again(self) -> None:
        """Give up wheel and timer log: what waits is in the timer topic's queue as well."""
        self._clear_wheel()
        for base in self.segments.offsets:
            self.wheel.remove(base)
        self.segments.remove_from(0)
        self.wheel.first = self.wheel.end = self.wheel.limit = 0
        self.wheel.last_unit = -1
        self.check.flushed = 0
        self.is_lost = True

    def _clear_wheel(self) -> None:
        assert self._wheel_segment is not None
        self._wheel_segment.zero(0, WHEEL_SIZE)

    def _cut_behind(self, end: int) -> None:
        """Nothing that lies behind the end may be taken for a unit later."""
        base = self.segments.base_of(end)
        for later in self.segments.remove_from(max(end, base + 1)):
            self.wheel.remove(later)
        segment = self.segments.find(end) if base in self.segments.offsets else None
        if segment is not None and end > base:
            segment.clear(end - base)
        elif segment is not None:
            segment.clear(0)
        self.wheel.limit = end

    def make_room(self) -> None:
        """Let the next unit find room in the timer log; DiskFull when there is none."""
        wheel = self.wheel
        if wheel.room() == 0:
            wheel.close_file()
            base = wheel.end
            if not self.segments.offsets:
                wheel.first = base
            if base not in self.segments.offsets:
                self.segments.create(base, reserve=False)
            self._add(base)
        base = self.segments.base_of(wheel.end)
        segment = self.segments.find(base)
        assert segment is not None
        position = wheel.end - base
        limit = min(position + RESERVE, segment.size)
        segment.reserve(position, limit)
        wheel.limit = base + limit

    def trim(self, log_min: int) -> None:
        """Remove files, never the last, whose last unit is of a message the log has deleted."""
        last = ((self.segments.size - BLANK_MIN) // UNIT_SIZE - 1) * UNIT_SIZE
        while len(self.segments.offsets) > 1:
            base = self.segments.offsets[0]
            unit = self.wheel.unit(base + last)
            if unit is not None and unit[4] >= log_min:
                break
            self.wheel.remove(base)
            self.segments.remove_first()
            self.wheel.first = self.segments.first_offset

    def dirty(self, end: int) -> tuple[list[Segment], list[str]]:
        """Files with units before ``end`` that are not yet synced, the wheel last; folders."""
        bases = range(self.segments.base_of(self._dirty_from), end, self.segments.size)
        found = [self.segments.find(base) for base in bases]
        assert self._wheel_segment is not None
        folders = {posixpath.dirname(self._wheel_path), *self.segments.take_renamed()}
        self._dirty_from = end
        segments = [segment for segment in found if segment is not None]
        return [*segments, self._wheel_segment], sorted(folders)

    def close(self) -> None:
        """Unmap everything."""
        if self._wheel_segment is None:
            return
        self.wheel.release()
        self.segments.close()
        self._wheel_segment.close()
        self._wheel_segment = None
        self.check.close()

    def _add(self, base: int) -> None:
        segment = self.segments.find(base)
        assert segment is not None
        self.wheel.add(segment.buffer, base)
