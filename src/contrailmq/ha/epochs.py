"""Under which primaries the log was written: the epochs of controller mode and their file.

``epochFileCheckpoint`` has a count, a checksum, and a line ``epoch-startOffset`` for each.  An
epoch ends where the next begins; the last has no end.  One that would begin where the last one
did, because nothing was written in between, is not added, as in the original: its broker goes on
under the older number, which was its own.
"""

from __future__ import annotations

import bisect
import logging
import zlib
from typing import Final, Protocol

from contrailmq.ha.wire import Epoch

log = logging.getLogger(__name__)

NO_END: Final = (1 << 63) - 1
_NONE: Final = Epoch(-1, -1)


class SmallFiles(Protocol):
    """What this module needs of the files."""

    def read(self, path: str) -> bytes | None:
        """The whole of a small file; None when it is not there."""
        ...

    def replace(self, path: str, data: bytes, *, backup: bool = False) -> None:
        """Write a small file whole, durably; ``backup`` keeps the one before as ``.bak``."""
        ...


class EpochList:
    """The epochs of one log, oldest first. Every change is on disk when it returns."""

    def __init__(self, files: SmallFiles, path: str) -> None:
        self._files = files
        self._path = path
        self.entries: list[Epoch] = []
        for place in (path, f"{path}.bak"):
            found = _decode(files.read(place))
            if found is not None:
                self.entries = found
                break

    @property
    def last_epoch(self) -> int:
        """The newest epoch; -1 without one."""
        return self.entries[-1].epoch if self.entries else -1

    @property
    def last_start(self) -> int:
        """Where the newest epoch begins; 0 without one."""
        return self.entries[-1].start if self.entries else 0

    def at(self, offset: int) -> Epoch:
        """The epoch of an offset."""
        place = bisect.bisect_right(self.entries, offset, key=lambda entry: entry.start)
        return self.entries[place - 1] if place else _NONE

    def end_of(self, offset: int) -> int:
        """Where the epoch of an offset ends."""
        place = bisect.bisect_right(self.entries, offset, key=lambda entry: entry.start)
        return self.entries[place].start if place < len(self.entries) else NO_END

    def append(self, epoch: int, start: int) -> None:
        """A new epoch begins here, unless a newer one has begun.

        An epoch that begins here too has no messages in this log.  It is forgotten: if it were
        kept, what its primary wrote and did not replicate would seem to be ours.
        """
        if self.entries and epoch <= self.last_epoch:
            return
        self._save([*(entry for entry in self.entries if entry.start < start), Epoch(epoch, start)])

    def cut(self, offset: int) -> None:
        """The log ends here now: epochs that begin later never were."""
        kept = [entry for entry in self.entries if entry.start < offset]
        if len(kept) != len(self.entries):
            self._save(kept)

    def drop_before(self, min_offset: int) -> None:
        """The log begins here now: epochs that end earlier are gone."""
        place = bisect.bisect_right(self.entries, min_offset, key=lambda entry: entry.start)
        if place > 1:
            self._save(self.entries[place - 1 :])

    def common_end(self, mine: int, others: tuple[Epoch, ...], their_end: int) -> int | None:
        """Up to where a log with other epochs is the same as ours; None when nowhere.

        ``mine`` is where our log ends, ``their_end`` where theirs does.
        """
        if not self.entries:
            return mine
        starts = {entry.epoch: place for place, entry in enumerate(others)}
        for place in range(len(self.entries) - 1, -1, -1):
            entry = self.entries[place]
            theirs = starts.get(entry.epoch)
            if theirs is None or others[theirs].start != entry.start:
                continue
            my_end = self.entries[place + 1].start if place + 1 < len(self.entries) else mine
            end = others[theirs + 1].start if theirs + 1 < len(others) else their_end
            return min(my_end, end)
        return None

    def never_was(self, others: tuple[Epoch, ...]) -> bool:
        """Whether our only epoch, the group's first, has no message in a log with other epochs."""
        return (
            len(self.entries) == 1
            and bool(others)
            and self.last_start == others[0].start == 0
            and self.last_epoch < others[0].epoch
        )

    def _save(self, entries: list[Epoch]) -> None:
        self.entries = entries
        if entries:  # an empty list is never written, as in the original
            self._files.replace(self._path, _encode(entries), backup=True)


def _encode(entries: list[Epoch]) -> bytes:
    lines = "".join(f"{entry.epoch}-{entry.start}\n" for entry in entries).encode()
    checksum = zlib.crc32(lines) & 0x7FFFFFFF
    return b"%d\n%d\n" % (len(entries), checksum) + lines


def _decode(data: bytes | None) -> list[Epoch] | None:
    """The entries of a file; None when it is not there or not whole."""
    if not data:
        return None
    try:
        count, checksum, *lines = data.decode("ascii").split("\n")
        entries = [Epoch(*map(int, line.split("-"))) for line in lines if line]
        text = "".join(f"{line}\n" for line in lines if line).encode()
        is_whole = int(count) == len(entries)
        is_right = int(checksum) in (0, zlib.crc32(text) & 0x7FFFFFFF)
    except (ValueError, TypeError):
        is_whole = is_right = False
        entries = []
    if not (is_whole and is_right):
        log.warning("epoch file is not whole and is passed over: size=%s", len(data))
        return None
    return entries
