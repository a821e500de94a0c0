"""Which files of the queues are mapped: a bounded number, those that were used last.

Linux allows a process some 65,000 mappings (``vm.max_map_count``); behind that every allocation of
the process fails, not only the store's.  So a queue file is mapped when it is needed and counted
here, and above the limit the one that was not used for longest is unmapped.  Its pages stay in the
page cache as they are, dirty or not: unmapping loses nothing, and mapping it again costs some
microseconds.

Writers and readers of a mapped file do not pass through here.  ``find`` of the owner says that a
file was read; whether a queue has grown is asked when its turn to go has come, and a queue that
has gets another turn.
"""

from __future__ import annotations

from typing import Final, Protocol

LIMIT_MIN: Final = 16  # what one operation on a queue, its extension included, has in its hands
_TURNS_MAX: Final = 64  # given again for one file that goes


class Mapped(Protocol):
    """Who has files mapped: the segments of a queue, or of its extension."""

    def is_busy(self, base: int) -> bool:
        """Whether the file that begins at ``base`` was written since the last time it was asked."""
        ...

    def let_go(self, base: int) -> None:
        """Unmap the file that begins at ``base``."""
        ...


class MappedFiles:
    """The files that are mapped, the one not used for longest first. Owned by the loop."""

    def __init__(self, limit: int) -> None:
        self.limit = max(limit, LIMIT_MIN)
        self._files: dict[tuple[Mapped, int], None] = {}

    def __len__(self) -> int:
        return len(self._files)

    def add(self, owner: Mapped, base: int) -> None:
        """A file was mapped; another one goes if they are too many."""
        self._files[owner, base] = None
        if len(self._files) > self.limit:
            self._let_one_go()

    def touch(self, owner: Mapped, base: int) -> None:
        """A file was used."""
        key = owner, base
        if key in self._files:
            del self._files[key]
            self._files[key] = None

    def remove(self, owner: Mapped, base: int) -> None:
        """A file is no longer mapped."""
        self._files.pop((owner, base), None)

    def _let_one_go(self) -> None:
        for _ in range(min(_TURNS_MAX, len(self._files) - 2)):  # never the one just mapped
            owner, base = key = next(iter(self._files))
            if not owner.is_busy(base):
                break
            del self._files[key]
            self._files[key] = None
        owner, base = next(iter(self._files))
        owner.let_go(base)
