"""Files of one size that together are one long stretch of bytes.

The file that holds offset ``n`` begins at ``n`` rounded down to the size and is named after that
number.  Offsets run without gaps from the first file to the last; files are added at the end and
go away at either end.  A file is mapped when it is first asked for.  The files of queues are very
many, so that only some of them are mapped at a time (``mapped_files``): whoever asks for another
file may close the one before, but a view of it stays good.
"""

from __future__ import annotations

import bisect
import logging
import posixpath
from collections.abc import Callable, Iterable

from contrailmq.errors import StoreError
from contrailmq.store.files import Files, Segment
from contrailmq.store.layout import find_segment_offset
from contrailmq.store.mapped_files import MappedFiles

log = logging.getLogger(__name__)


class Segments:
    """The files of the log, or of one queue."""

    __slots__ = (
        "_files",
        "_maps",
        "_open",
        "_path_of",
        "_paths",
        "_renamed",
        "grown",
        "offsets",
        "on_let_go",
        "size",
    )

    def __init__(
        self,
        files: Files,
        *,
        size: int,
        path_of: Callable[[int], str],
        maps: MappedFiles | None = None,
    ) -> None:
        """``path_of`` names the file for a first offset.

        With ``maps`` the files are many: they are mapped as that allows, and no descriptor is
        kept.
        """
        self._files = files
        self._path_of = path_of
        self._maps = maps
        self.grown: Callable[[], bool] | None = None  # whether the last file was written, if asked
        self.on_let_go: Callable[[int], None] | None = None
        self._open: dict[int, Segment] = {}
        self._paths: dict[int, str] = {}
        self._renamed: set[str] = set()
        self.size = size
        self.offsets: list[int] = []

    def load(
        self, folders: Iterable[str], *, has_copy: bool = False, drop_damaged: bool = False
    ) -> None:
        """Find the files that are there; one of another size is an error, and so is a gap.

        An empty last file, left by a crash between its creation and its allocation, is removed.
        With ``has_copy`` everything here can be made again: what follows a gap is removed too,
        and with ``drop_damaged`` a file of another size and what follows it.
        """
        self.offsets.clear()
        self._paths.clear()
        is_broken = False
        found: list[tuple[int, str, int]] = []
        for folder in folders:
            for name, size in self._files.entries(folder):
                offset = find_segment_offset(name)
                if offset is None:
                    log.warning("not a segment, left alone: path=%s/%s", folder, name)
                    continue
                found.append((offset, posixpath.join(folder, name), size))
        found.sort()
        if found and found[-1][2] == 0:
            self._files.remove(found.pop()[1])
        for offset, path, size in found:
            if size != self.size and not drop_damaged:
                raise StoreError(
                    f"{path} has {size} bytes, its store is set to {self.size}; start it with the "
                    "mappedFileSize… keys it was made with, or with another store directory"
                )
            if size != self.size or is_broken:
                log.warning("file was cut off or follows such a one, removed: path=%s", path)
                self._files.remove(path)
                is_broken = True
                continue
            if self.offsets and offset != self.offsets[-1] + self.size:
                last = self._paths[self.offsets[-1]]
                if not has_copy:
                    raise StoreError(f"{path} does not follow {last}: a file is missing")
                log.warning("file follows a gap, removed: path=%s after=%s", path, last)
                self._files.remove(path)
                continue
            self.offsets.append(offset)
            self._paths[offset] = path

    @property
    def first_offset(self) -> int:
        """Where the first file begins; 0 without files."""
        return self.offsets[0] if self.offsets else 0

    @property
    def limit_offset(self) -> int:
        """Where the last file ends; 0 without files."""
        return self.offsets[-1] + self.size if self.offsets else 0

    def base_of(self, offset: int) -> int:
        """The first offset of the file that holds ``offset``."""
        return offset - offset % self.size

    def find(self, offset: int) -> Segment | None:
        """The file that holds an offset, mapped; None when there is none."""
        base = offset - offset % self.size
        segment = self._open.get(base)
        if segment is None and base in self._paths:
            segment = self._files.open(self._paths[base], hold=self._maps is None)
            if segment.size != self.size:
                segment.close()
                raise StoreError(f"{segment.path} has changed its size")
            self._opened(base, segment)
        elif segment is not None and self._maps is not None:
            self._maps.touch(self, base)
        return segment

    def _opened(self, base: int, segment: Segment) -> None:
        self._open[base] = segment
        if self._maps is not None:
            # Else the first fault reads around itself: 6 MB of zeros a queue.
            segment.expect_scattered()
            self._maps.add(self, base)

    def path(self, base: int) -> str:
        """The path of a file that is there, or of the one that would be."""
        return self._paths.get(base) or self._path_of(base)

    def create(self, base: int, *, reserve: bool) -> Segment:
        """Add the file that begins at ``base``."""
        segment = self._files.create(
            self._path_of(base), self.size, reserve=reserve, hold=self._maps is None
        )
        self.adopt(base, segment)
        return segment

    def doubt_names(self) -> None:
        """Whether the names of these files are on disk is not known: count them as new."""
        self._renamed |= {posixpath.dirname(path) for path in self._paths.values()}

    def take_renamed(self) -> set[str]:
        """Folders in which files were made or removed since the last call: not yet certain."""
        renamed, self._renamed = self._renamed, set()
        return renamed

    def adopt(self, base: int, segment: Segment) -> None:
        """Add a file that was made elsewhere."""
        self._renamed.add(posixpath.dirname(segment.path))
        assert not self.offsets or base == self.limit_offset
        self.offsets.append(base)
        self._paths[base] = segment.path
        self._opened(base, segment)

    def paths(self, start: int, end: int) -> list[str]:
        """The paths of the files that hold bytes of a range."""
        return [
            self._paths[base] for base in self.offsets if base + self.size > start and base < end
        ]

    def is_busy(self, base: int) -> bool:
        """Whether a file was written since the last time it was asked."""
        return (
            self.grown is not None
            and bool(self.offsets)
            and base == self.offsets[-1]
            and self.grown()
        )

    def let_go(self, base: int) -> None:
        """Unmap a file, whoever uses it."""
        if self.on_let_go is not None:
            self.on_let_go(base)
        self.release(base)

    def remove_first(self) -> str:
        """Forget and delete the oldest file; readers in the middle of it keep their view."""
        base = self.offsets.pop(0)
        return self._remove(base)

    def forget_first(self) -> str:
        """Forget the oldest file without deleting it; its path."""
        base = self.offsets.pop(0)
        self.release(base)
        return self._paths.pop(base)

    def drop_unwritten(self) -> None:
        """Remove last files without a byte of data, except the first: they can be made again.

        To look into one can end the process: on a full tmpfs there is no page for its zeros.
        """
        while len(self.offsets) > 1:
            last = self.find(self.offsets[-1])
            if last is None or last.has_data():
                return
            self.remove_from(self.offsets[-1])

    def remove_from(self, offset: int) -> list[int]:
        """Delete every file that begins at or behind an offset; their first offsets."""
        place = bisect.bisect_left(self.offsets, offset)
        removed = self.offsets[place:]
        for base in reversed(removed):
            self._remove(base)
        del self.offsets[place:]
        return removed

    def _remove(self, base: int) -> str:
        path = self._paths.pop(base)
        self._files.remove(path)
        self._renamed.add(posixpath.dirname(path))
        self.release(base)
        return path

    def release(self, base: int) -> None:
        """Unmap one file; it is mapped again when asked for."""
        segment = self._open.pop(base, None)
        if segment is not None:
            if self._maps is not None:
                self._maps.remove(self, base)
            segment.close()

    def opened(self) -> list[tuple[int, Segment]]:
        """The files mapped now, in order."""
        return sorted(self._open.items(), key=lambda item: item[0])

    def close(self) -> None:
        """Unmap everything."""
        for base in list(self._open):
            self.release(base)

    def __repr__(self) -> str:
        return f"<Segments {self.first_offset}..{self.limit_offset} of {self.size}>"
