"""Memory of a measured process: what it uses, and driving a store's files out of it.

A file that a process has mapped stays in memory whatever ``posix_fadvise`` says, so that a cold
read needs two steps: the process's own pages of the file are paged out (``process_madvise``, Linux
5.10, allowed to root and to who may trace the process), then the file is dropped from the page
cache.  ``resident_share`` tells how well that worked.

The host of a virtual machine gives it a page of memory when it is touched, which costs several
times as much as a page that was in use before, and takes free pages back within seconds: on a
machine that has just started whoever writes a new file pays for memory, not for the write.  On one
that has run for a day nearly all of the memory holds pages of files, and new ones take the place
of old ones.  ``UsedMemory`` makes that state, and makes it again where files were deleted.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

_LIBC = ctypes.CDLL(None, use_errno=True)
_PROCESS_MADVISE = 440
_PIDFD_OPEN = 434
_PAGEOUT = 21
_PAGE = mmap.PAGESIZE
_SAMPLE_S = 0.05
_PIECE = 256 * 1024 * 1024
_STEP = 1024 * 1024
_FREE_MAX_KB = 1024 * 1024


class _Span(ctypes.Structure):
    _fields_ = [("start", ctypes.c_size_t), ("size", ctypes.c_size_t)]


def status_kb(pid: int, *names: str) -> dict[str, int]:
    """Lines of ``/proc/PID/status``, in kilobytes; empty when the process is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    pairs = (line.partition(":")[::2] for line in lines)
    return {name: int(rest.split()[0]) for name, rest in pairs if name in names}


def memory_kb(name: str) -> int:
    """A line of ``/proc/meminfo``, in kilobytes."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{name}:")).split()[1])


class UsedMemory:
    """Free memory is put to use as pages of a file nobody needs, which the kernel reuses first.

    The file is one hole: it takes no room on the disk, and reading it asks nothing of it.
    """

    def __init__(self, directory: Path) -> None:
        self._size = 2 * memory_kb("MemTotal") * 1024 // _PIECE * _PIECE
        self._file = (directory / "unused").open("w+b")
        self._file.truncate(self._size)
        self._at = 0

    def __enter__(self) -> Self:
        self.renew()
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def renew(self) -> int:
        """Put free memory to use as far as that goes (groups have limits); how many bytes."""
        buffer, used = memoryview(bytearray(_STEP)), 0
        free = memory_kb("MemFree")
        while free > _FREE_MAX_KB and used < self._size:
            for _ in range(_PIECE // _STEP):
                os.preadv(self._file.fileno(), [buffer], self._at)
                self._at = (self._at + _STEP) % self._size
            used += _PIECE
            before, free = free, memory_kb("MemFree")
            if before - free < _PIECE // 1024 // 4:
                break
        return used


class PeakAnonymous:
    """The most anonymous memory processes had together while the block ran, in bytes."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._pids = list(pids)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.peak = 0

    def __enter__(self) -> Self:
        self._look()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._look()

    def _watch(self) -> None:
        while not self._stop.wait(_SAMPLE_S):
            self._look()

    def _look(self) -> None:
        total = sum(status_kb(pid, "RssAnon").get("RssAnon", 0) for pid in self._pids)
        self.peak = max(self.peak, total * 1024)


def evict(directory: Path, pids: Iterable[int]) -> float:
    """Drive the files of a store out of memory; the share of its log that is still there."""
    os.sync()
    for pid in pids:
        _page_out(pid, directory)
    for path in sorted(directory.rglob("*")):
        if path.is_file() and path.stat().st_size:
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)
    return resident_share(directory / "commitlog")


def _page_out(pid: int, directory: Path) -> None:
    descriptor = _LIBC.syscall(_PIDFD_OPEN, pid, 0)
    if descriptor < 0:
        return
    try:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            if str(directory) not in line:
                continue
            start, _, end = line.split()[0].partition("-")
            span = _Span(int(start, 16), int(end, 16) - int(start, 16))
            _LIBC.syscall(_PROCESS_MADVISE, descriptor, ctypes.byref(span), 1, _PAGEOUT, 0)
    finally:
        os.close(descriptor)


def resident_share(directory: Path) -> float:
    """How much of what these files hold on disk is in memory, 0 to 1."""
    inside = whole = 0
    for path in sorted(directory.iterdir()):
        whole += path.stat().st_blocks * 512 // _PAGE
        inside += _resident_pages(path)
    return min(inside / whole, 1.0) if whole else 0.0


def _resident_pages(path: Path) -> int:
    size = path.stat().st_size
    if not size:
        return 0
    pages = -(-size // _PAGE)
    with path.open("rb") as file:
        _LIBC.mmap.restype = ctypes.c_void_p
        address = _LIBC.mmap(
            None, ctypes.c_size_t(size), mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(),
            ctypes.c_long(0),
        )  # fmt: skip
    flags = (ctypes.c_ubyte * pages)()
    _LIBC.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), flags)
    _LIBC.munmap(ctypes.c_void_p(address), ctypes.c_size_t(size))
    return bytes(flags).translate(_LOW_BIT).count(1)


_LOW_BIT = bytes(value & 1 for value in range(256))
