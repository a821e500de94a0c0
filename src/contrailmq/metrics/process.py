"""What the process takes of its machine, under the names every Prometheus client uses."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from contrailmq.metrics.model import Family, Group, Kind, Point

_CPU: Final = Family(
    "process_cpu_seconds_total", Kind.COUNTER, "Processor time used by the process, in seconds."
)
_RESIDENT: Final = Family(
    "process_resident_memory", Kind.GAUGE, "Memory of the process that is in RAM.", "bytes"
)
_VIRTUAL: Final = Family(
    "process_virtual_memory", Kind.GAUGE, "Address space of the process, mapped files included.",
    "bytes",
)  # fmt: skip
_FILES: Final = Family("process_open_fds", Kind.GAUGE, "Open files and sockets of the process.")
_FILES_MAX: Final = Family(
    "process_max_fds", Kind.GAUGE, "Most open files and sockets the system allows."
)
_START: Final = Family(
    "process_start_time", Kind.GAUGE, "When the process began to serve, in seconds since 1970.",
    "seconds",
)  # fmt: skip


class ProcessFigures:
    """Reads them from the system. ``began_ms`` is when the server started."""

    def __init__(self, began_ms: int) -> None:
        self._began_ms = began_ms

    def source(self) -> Iterator[Group]:
        """What holds now; what the system does not tell is left out."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        yield _CPU, [Point((), used.ru_utime + used.ru_stime)]
        page = resource.getpagesize()
        try:
            pages = Path("/proc/self/statm").read_text().split()
            yield _VIRTUAL, [Point((), int(pages[0]) * page)]
            yield _RESIDENT, [Point((), int(pages[1]) * page)]
            yield _FILES, [Point((), len(os.listdir("/proc/self/fd")))]  # noqa: PTH208 (50,000 of them)
        except OSError:
            pass  # no /proc: not Linux
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        yield _FILES_MAX, [Point((), soft)]
        yield _START, [Point((), self._began_ms / 1000)]
