"""Temporary folders that a killed process does not leave for good.

Each has a file that its owner keeps locked.  The kernel lets go of the lock however the owner ends,
so the next process that makes such a folder sees which ones are left over, and deletes them.
"""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from pathlib import Path
from typing import IO, Final

PREFIX: Final = "contrail-spark-"
_OWNER: Final = ".owner"


class Scratch:
    """A folder of this process; ``remove`` it at the end."""

    def __init__(self) -> None:
        sweep()
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        fresh = self.path / f"{_OWNER}.new"
        self._lock: IO[bytes] = fresh.open("wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        fresh.rename(self.path / _OWNER)  # locked already when it has its name

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *reason: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Delete the folder with all it has."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def sweep(parent: Path | None = None) -> int:
    """Delete the folders whose owners have ended. Returns how many those were."""
    count = 0
    for folder in (parent or Path(tempfile.gettempdir())).glob(f"{PREFIX}*"):
        try:
            with (folder / _OWNER).open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
                count += 1
        except OSError:
            continue  # in use, of another user, or gone
    return count
