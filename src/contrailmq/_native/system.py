"""What compiled loops ask of the operating system and of the interpreter.

Like ``raw`` this module is never compiled: compiled modules take the inline C functions of
``system.pxd`` under the same names, the plain build takes these.
"""

from __future__ import annotations

import ctypes
import os
import select
import time
from typing import Any

_WILLNEED = 3
_POPULATE_READ = 22


def serve_syncs(wake_fd: int, done_fd: int, order: Any) -> None:
    """Sync the files of ``order`` each time ``wake_fd`` says so, until their count is below 0.

    ``order`` is an array of native 32-bit integers: how many files, the error number of the last
    order (0: none), which file had it, then the files' descriptors.  ``done_fd`` says that an order
    is carried out.
    """
    words = memoryview(order).cast("B").cast("i")
    while os.eventfd_read(wake_fd) and words[0] >= 0:
        words[1] = 0
        for index in range(words[0]):
            try:
                os.fdatasync(words[3 + index])
            except OSError as error:
                words[1], words[2] = error.errno or 5, index
                break
        os.eventfd_write(done_fd, 1)


def step(coroutine: Any) -> Any:
    """Run a coroutine until it waits for the first time: what it waits for, or itself at its end.

    Raises what it raises.
    """
    try:
        return coroutine.send(None)
    except StopIteration:
        return coroutine


def serve_loads(wake_fd: int, done_fd: int, orders: Any, room: int) -> None:
    """Bring mapped memory in from the disk, order by order, until told to end.

    ``orders`` is an array of native 64-bit integers: a word that is below 0 to end, then a ring of
    ``room`` orders of two words each, address (of a page) and size.  What is added to ``wake_fd``
    is the number of new orders, what comes out of ``done_fd`` the number of those carried out.
    All orders that are known are asked of the disk before the first of them is waited for.
    """
    words = memoryview(orders).cast("B").cast("q")
    libc = ctypes.CDLL(None)
    waker = select.poll()
    waker.register(wake_fd, select.POLLIN)
    given = asked = done = 0
    while True:
        if done == given or waker.poll(0):
            given += os.eventfd_read(wake_fd)
        if words[0] < 0:
            return
        while asked < given:
            at = 1 + 2 * (asked % room)
            libc.madvise(ctypes.c_void_p(words[at]), ctypes.c_size_t(words[at + 1]), _WILLNEED)
            asked += 1
        at = 1 + 2 * (done % room)
        libc.madvise(ctypes.c_void_p(words[at]), ctypes.c_size_t(words[at + 1]), _POPULATE_READ)
        done += 1
        os.eventfd_write(done_fd, 1)


def send_now(fd: int, buffers: list[Any]) -> int:
    """Send what a socket that does not block takes at once; how many bytes of all are left.

    A socket that is broken takes nothing: whoever owns it finds out with the next write.
    """
    whole = b"".join(buffers)
    try:
        return len(whole) - os.write(fd, whole)
    except OSError:
        return len(whole)


def ready(epoll: Any, fd: int, found: Any, room: int) -> int:
    """Which sockets of an epoll set have something to read, or have ended: how many there are.

    Their descriptors are put into ``found``, an array of ``room`` native 32-bit integers.  ``fd``
    is the set's own descriptor.  Does not wait.
    """
    words = memoryview(found).cast("B").cast("i")
    events = epoll.poll(0, room)
    for index, (ready_fd, _) in enumerate(events):
        words[index] = ready_fd
    return len(events)


def receive(fd: int, room: Any, size: int) -> int:
    """Read what a socket has, up to ``size`` bytes: how many came; 0 at its end, or broken.

    Below 0 when there is nothing to read after all.
    """
    try:
        return os.readv(fd, [memoryview(room)[:size]])
    except (BlockingIOError, InterruptedError):
        return -1
    except OSError:
        return 0


def write_at(fd: int, data: Any, size: int, position: int) -> int:
    """Write to a place of a file, without the interpreter lock: how many bytes; -1 on an error."""
    try:
        return os.pwrite(fd, memoryview(data)[:size], position)
    except OSError:
        return -1


def wall_ms() -> int:
    """Wall-clock milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def monotonic_ns() -> int:
    """Nanoseconds of a clock that is never set; only differences mean something."""
    return time.monotonic_ns()
