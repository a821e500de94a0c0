"""What compiled loops ask of the operating system and of the interpreter.

Like ``raw`` this module is never compiled: compiled modules take the inline C functions of
``system.pxd`` under the same names, the plain build takes these.
"""

from __future__ import annotations

import os
from typing import Any


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
