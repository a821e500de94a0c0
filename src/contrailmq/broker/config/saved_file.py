"""Small files that are replaced whole: ``config/topics.json`` and its neighbours.

Theory of operation.  A write keeps the present content as ``NAME.bak`` and then puts the new one in
its place by renaming, so at every moment at least one of the two is whole; ``read`` takes the first
that parses.  Content that did not parse never becomes the backup: the good backup it fell back to
stays until a whole new file is there.  The original reads and writes the same pair of names
(ConfigManager), so either system can take over the directory of the other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from contrailmq.errors import ConfigError, ProtocolError

log = logging.getLogger(__name__)

T = TypeVar("T")
BACKUP_SUFFIX: Final = ".bak"


class SmallFiles(Protocol):
    """What this module needs of a disk."""

    def read(self, path: str) -> bytes | None:
        """A file's content, None when there is none."""
        ...

    def replace(self, path: str, data: bytes, *, backup: bool = False) -> None:
        """Put a new content in place of the old, which becomes ``.bak`` if that is asked for."""
        ...


class ConfigFile:
    """One file, its backup, and the rule which of them counts."""

    def __init__(self, files: SmallFiles, path: str) -> None:
        self._files = files
        self._is_whole = True
        self.is_behind = False  # what was read is a backup, or nothing: it may lack the newest
        self.path = path

    def read(self, parse: Callable[[bytes], T], *, is_cache: bool = False) -> T | None:
        """The newest content that parses; None when there is none at all.

        Content that exists and cannot be used is an error only when the backup cannot be used
        either: starting with an empty table would lose every topic. What is only a cache
        (``is_cache``) fills again by itself, and then counts as nothing.
        """
        faults: list[str] = []
        for path in (self.path, self.path + BACKUP_SUFFIX):
            data = self._files.read(path)
            if data is None or not data.strip(b" \t\r\n\0"):
                self._is_whole = False
                continue
            try:
                found = parse(data)
            except (ProtocolError, ValueError) as error:
                self._is_whole = False
                faults.append(f"{path}: {error}")
                continue
            self.is_behind = path != self.path
            if self.is_behind:
                log.warning("read the backup of a file: path=%s faults=%s", path, faults)
            return found
        self.is_behind = True
        if faults and is_cache:
            log.warning("a file is damaged and begins empty: faults=%s", faults)
        elif faults:
            raise ConfigError("; ".join(faults) + "; restore it, or move it away to start empty")
        return None

    def exists(self) -> bool:
        """Whether there is a file, whatever is in it."""
        return self._files.read(self.path) is not None

    def write(self, data: bytes) -> None:
        """Replace the content; blocks on the disk, so it runs in a thread."""
        self._files.replace(self.path, data, backup=self._is_whole)
        self._is_whole = True

    def __repr__(self) -> str:
        return f"<ConfigFile {self.path}>"
