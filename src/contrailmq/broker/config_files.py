"""Small files that are replaced whole: ``config/topics.json`` and its neighbours.

Theory of operation.  New content goes to ``NAME.tmp`` and is synced; the present content gets the
second name ``NAME.bak``; then ``NAME.tmp`` is renamed to ``NAME`` and the directory is synced.  So
at every moment at least one of ``NAME`` and ``NAME.bak`` is whole, and ``read`` takes the first
that parses.  The original reads and writes the same pair of names (ConfigManager), so either
system can take over the directory of the other.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from contrailmq.errors import ConfigError

log = logging.getLogger(__name__)

T = TypeVar("T")
FILE_SIZE_MAX: Final = 512 * 1024 * 1024


class ConfigFile:
    """One file, its backup, and the rule which of them counts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._backup = path.with_name(path.name + ".bak")
        self._new = path.with_name(path.name + ".tmp")

    def read(self, parse: Callable[[bytes], T]) -> T | None:
        """The newest content that parses; None when there is none at all.

        Content that exists and cannot be used is an error only when the backup cannot be used
        either: starting with an empty table would lose every topic.
        """
        faults: list[str] = []
        for path in (self.path, self._backup):
            try:
                if path.stat().st_size > FILE_SIZE_MAX:
                    raise ValueError(f"larger than {FILE_SIZE_MAX} bytes")
                data = path.read_bytes()
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as error:
                faults.append(f"{path}: {error}")
                continue
            if not data.strip(b" \t\r\n\0"):
                continue
            try:
                found = parse(data)
            except (ValueError, KeyError, TypeError) as error:
                faults.append(f"{path}: {error}")
                continue
            if faults or path is self._backup:
                log.warning("read the backup of a file: path=%s faults=%s", path, faults)
            return found
        if faults:
            raise ConfigError("; ".join(faults) + "; restore it, or move it away to start empty")
        return None

    def write(self, data: bytes) -> None:
        """Replace the content; may block on the disk, so it runs in a thread."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._new.open("wb") as file:
            file.write(data)
            file.flush()
            os.fdatasync(file.fileno())
        spare = self._backup.with_name(self._backup.name + ".tmp")
        with contextlib.suppress(FileNotFoundError):
            spare.unlink()
        with contextlib.suppress(FileNotFoundError):
            spare.hardlink_to(self.path)
            spare.replace(self._backup)
        self._new.replace(self.path)
        _sync_directory(self.path.parent)

    def __repr__(self) -> str:
        return f"<ConfigFile {self.path}>"


def _sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
