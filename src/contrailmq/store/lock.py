"""One process has a store directory open."""

from __future__ import annotations

import fcntl
import os

from contrailmq.errors import StoreLocked


class OsLock:
    """The lock on a store directory.

    Java's ``FileChannel.tryLock(0, 1, false)`` is a POSIX record lock on the first byte.  Such a
    lock does not exclude a second store in the same process, hence ``flock`` on top.
    """

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, os.SEEK_SET)
        except OSError:
            os.close(self._fd)
            raise StoreLocked(f"{path} is locked: another broker has this store open") from None
        os.pwrite(self._fd, b"lock", 0)

    def release(self) -> None:
        """Let others have it."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
