"""Files in memory that can lose power, run full and fail.

A file has two contents: the *cache*, which its writer sees, and the *disk*, which a power cut
leaves.  ``sync`` brings the first to the second.  At a power cut each page of 4096 bytes that
differs may or may not have been written back already, one by one, in no order; files made or
removed since their folder was last synced may or may not be there.  A *kill* loses nothing: the
page cache outlives a process.

Compiled loops write through memoryviews, so writes are not seen one by one: dirty is what differs.

A failed sync behaves as Linux does: the error is reported once, the pages count as clean, and
the next sync succeeds without having written them.
"""

from __future__ import annotations

import errno
import posixpath
import random
from collections.abc import Callable, Sequence
from typing import Final

from contrailmq.errors import DiskFull, StoreError, StoreLocked
from contrailmq.store.files import DiskUsage, FileEntry

PAGE: Final = 4096
_CAPACITY: Final = 1 << 40


class SimFiles:
    """The file system of one simulated machine."""

    def __init__(
        self,
        *,
        capacity: int = _CAPACITY,
        memory_size: int = 1 << 30,
        now_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        self.capacity = capacity
        self.sync_count = 0
        self.mappings = 40
        self._memory_size = memory_size
        self.now_ms = now_ms
        self._files: dict[str, _Content] = {}
        self._linked: dict[str, _Content] = {}  # what the folders on disk say
        self._boots = 1
        self._locks: set[str] = set()
        self._faults: list[tuple[str, str, int]] = []

    # Files

    def create(
        self, path: str, size: int, *, reserve: bool = True, hold: bool = True
    ) -> SimSegment:
        """Make a file of zeros, or open what is there."""
        self._strike("create", path)
        content = self._files.get(path)
        if content is None:
            content = self._files[path] = _Content(size, self.now_ms())
        elif len(content.cache) < size:
            content.grow(size)
        segment = SimSegment(self, path, content, writable=True)
        if reserve:
            segment.reserve(0, size)
        return segment

    def open(self, path: str, *, writable: bool = True, hold: bool = True) -> SimSegment:
        """Open an existing file."""
        self._strike("open", path)
        content = self._files.get(path)
        if content is None:
            raise FileNotFoundError(errno.ENOENT, "no such simulated file", path)
        return SimSegment(self, path, content, writable=writable)

    def entries(self, folder: str) -> list[FileEntry]:
        """The files of a folder, by name."""
        return sorted(
            FileEntry(posixpath.basename(path), len(content.cache))
            for path, content in self._files.items()
            if posixpath.dirname(path) == folder
        )

    def folders(self, folder: str) -> list[str]:
        """Names of the folders in a folder."""
        start = folder + "/"
        rests = (path[len(start) :] for path in self._files if path.startswith(start))
        return sorted({rest.split("/", 1)[0] for rest in rests if "/" in rest})

    def oddities(self, folder: str) -> list[str]:
        """There are only files and folders."""
        return []

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        return path in self._files or any(name.startswith(path + "/") for name in self._files)

    def read(self, path: str) -> bytes | None:
        """A file's content."""
        content = self._files.get(path)
        return None if content is None else bytes(content.cache)

    def replace(self, path: str, data: bytes, *, backup: bool = False) -> None:
        """Write a small file; it is on disk when this returns, and so is its name."""
        self._strike("replace", path)
        before = self._files.get(path)
        if backup and before is not None:
            self._files[path + ".bak"] = self._linked[path + ".bak"] = before
        content = _Content(len(data), self.now_ms())
        content.cache[:] = content.disk[:] = data
        self._files[path] = self._linked[path] = content

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        self._strike("remove", path)
        self._files.pop(path, None)

    def remove_folder(self, path: str) -> None:
        """Folders are only the names of their files."""

    def sync_folder(self, path: str) -> None:
        """Names made and removed here are on disk from now on."""
        self._strike("sync_folder", path)
        for name in [name for name in self._linked if posixpath.dirname(name) == path]:
            if name not in self._files:
                del self._linked[name]
        for name, content in self._files.items():
            if posixpath.dirname(name) == path:
                self._linked[name] = content

    def sync_files(self, paths: Sequence[str]) -> None:
        """Bring what is in the cache of files to the disk."""
        for path in paths:
            content = self._files.get(path)
            if content is not None:
                SimSegment(self, path, content, writable=False).sync()

    def sync_disks(self, paths: Sequence[str]) -> bool:
        """Bring the cache of these files, and all names, to the disk."""
        self.sync_files(paths)
        self._linked = dict(self._files)
        return True

    def mappings_max(self) -> int:
        """Few, so that files are mapped and unmapped all the time."""
        return self.mappings

    def modified_ms(self, path: str) -> int:
        """Time of the last sync or creation."""
        content = self._files.get(path)
        return 0 if content is None else content.modified_ms

    def usage(self, path: str) -> DiskUsage:
        """How full the simulated disk is."""
        used = self.used()
        return DiskUsage(self.capacity, used, max(self.capacity - used, 0))

    def used(self) -> int:
        """Bytes of blocks that files have."""
        return PAGE * sum(len(content.blocks) for content in self._files.values())

    def memory_size(self) -> int:
        """Bytes of memory of the simulated machine."""
        return self._memory_size

    def boot_id(self) -> bytes:
        """Another one after each power cut."""
        return b"boot %d" % self._boots

    def lock(self, path: str) -> SimLock:
        """Take a lock file."""
        if path in self._locks:
            raise StoreLocked(f"{path} is locked: another broker has this store open")
        self._locks.add(path)
        if path not in self._files:
            self.replace(path, b"lock")
        return SimLock(self._locks, path)

    # Faults

    def fail(self, operation: str, path_part: str = "", *, after: int = 0) -> None:
        """Let an operation on such a path fail once, after ``after`` that go well.

        ``sync`` fails with EIO and drops its pages, ``reserve`` with a full disk, ``short`` lets a
        ``write`` stop half way, others fail with EIO.
        """
        self._faults.append((operation, path_part, after))

    def flip(self, path: str, position: int, *, bit: int = 0) -> None:
        """Damage one bit of a file, in the cache and on disk."""
        content = self._files[path]
        content.cache[position] ^= 1 << bit
        content.disk[position] ^= 1 << bit

    def paths(self) -> list[str]:
        """Every file there is."""
        return sorted(self._files)

    def kill(self) -> None:
        """The process dies and the machine goes on: locks are free, nothing else is lost."""
        self._locks.clear()
        self._faults.clear()
        for content in self._files.values():
            content.renew()

    def cut_power(self, rng: random.Random, *, written: float = 0.5) -> None:
        """Lose power. Each dirty page was written back with this probability."""
        self._boots += 1
        survivors: dict[str, _Content] = {}
        for path in sorted({*self._files, *self._linked}):
            now, before = self._files.get(path), self._linked.get(path)
            chosen = now if now is before or rng.random() < 0.5 else before
            if chosen is not None:
                survivors[path] = chosen
        for content in survivors.values():
            content.lose(rng, written)
        self._files = survivors
        self._linked = dict(survivors)
        self.kill()

    def _strike(self, operation: str, path: str) -> None:
        if self.is_struck(operation, path):
            raise OSError(errno.EIO, f"simulated failure of {operation}", path)

    def is_struck(self, operation: str, path: str) -> bool:
        """Whether this operation is to fail; each fault strikes once."""
        for place, (wanted, part, after) in enumerate(self._faults):
            if wanted == operation and part in path:
                if after > 0:
                    self._faults[place] = (wanted, part, after - 1)
                    return False
                del self._faults[place]
                return True
        return False


class SimLock:
    """A lock that is held."""

    def __init__(self, locks: set[str], path: str) -> None:
        self._locks = locks
        self._path = path

    def release(self) -> None:
        """Let others have it."""
        self._locks.discard(self._path)


class SimSegment:
    """A file of fixed size, open."""

    descriptor = -1
    is_mapped = False
    address = 0

    def __init__(self, files: SimFiles, path: str, content: _Content, *, writable: bool) -> None:
        self.path = path
        self.size = len(content.cache)
        self._files = files
        self._content = content
        view = memoryview(content.cache)
        self._buffer: memoryview | None = view if writable else view.toreadonly()

    @property
    def buffer(self) -> memoryview:
        """All of its bytes."""
        if self._buffer is None:
            raise StoreError(f"{self.path} is closed")
        return self._buffer

    def load(self, start: int, end: int) -> None:
        """It never leaves memory."""

    def has_data(self) -> bool:
        """Whether there is anything but zeros."""
        return any(self.buffer)

    def reserve(self, start: int, end: int) -> None:
        """Real blocks, as long as there are any."""
        wanted = set(range(start // PAGE, -(-end // PAGE))) - self._content.blocks
        room = self._files.capacity - self._files.used()
        if self._files.is_struck("reserve", self.path) or len(wanted) * PAGE > room:
            raise DiskFull(f"no room for {self.path}: {room} of {self._files.capacity} bytes free")
        self._content.blocks |= wanted

    def zero(self, start: int, end: int) -> None:
        """Zeros, with blocks."""
        self.reserve(start, end)
        self.buffer[start:end] = bytes(end - start)

    def clear(self, position: int) -> bool:
        """Zeros up to the end, without blocks."""
        if not any(self.buffer[position:]):
            return False
        self.buffer[position:] = bytes(self.size - position)
        self._content.blocks = {page for page in self._content.blocks if page * PAGE < position}
        return True

    def expect_scattered(self) -> None:
        """Memory is all the same."""

    def populate(self, start: int, end: int) -> None:
        """Memory needs no preparation."""

    def write(self, position: int, data: bytes | bytearray | memoryview) -> int:
        """Write, perhaps only a part."""
        size = len(data)
        if self._files.is_struck("write", self.path):
            raise OSError(errno.EIO, "simulated failure of write", self.path)
        if size > 1 and self._files.is_struck("short", self.path):
            size //= 2
        self.buffer[position : position + size] = data[:size]
        self._content.touch(position, position + size)
        return size

    def sync(self) -> None:
        """Bring the cache to the disk, or fail and drop it."""
        if self._files.is_struck("sync", self.path):
            self._content.drop()
            raise OSError(errno.EIO, "simulated failure of sync", self.path)
        self._files.sync_count += 1
        self._content.sync(self._files.now_ms())

    def close(self) -> None:
        """Drop the view."""
        self._buffer = None


class _Content:
    """What a file holds, in the cache and on disk."""

    def __init__(self, size: int, now_ms: int) -> None:
        self.cache = bytearray(size)
        self.disk = bytearray(size)
        self.blocks: set[int] = set()
        self.modified_ms = now_ms
        self._dropped: dict[int, bytes] = {}

    def grow(self, size: int) -> None:
        self.cache = bytearray(self.cache) + bytearray(size - len(self.cache))
        self.disk = bytearray(self.disk) + bytearray(size - len(self.disk))

    def sync(self, now_ms: int) -> None:
        for page in self._dirty():
            if self._dropped.get(page) != self._page(page):
                self._write_back(page)
                self._dropped.pop(page, None)
        self.modified_ms = now_ms

    def touch(self, start: int, end: int) -> None:
        """Pages written, be it with what they had: the next sync writes them."""
        for page in range(start // PAGE, -(-end // PAGE)):
            self._dropped.pop(page, None)

    def drop(self) -> None:
        for page in self._dirty():
            self._dropped[page] = self._page(page)

    def lose(self, rng: random.Random, written: float) -> None:
        for page in self._dirty():
            if self._dropped.get(page) != self._page(page) and rng.random() < written:
                self._write_back(page)
        self.cache = bytearray(self.disk)
        self._dropped.clear()

    def renew(self) -> None:
        """A new process maps it anew; views of the old one no longer matter."""
        self.cache = bytearray(self.cache)

    def _dirty(self) -> list[int]:
        if self.cache == self.disk:
            return []
        pages = range(-(-len(self.cache) // PAGE))
        return [page for page in pages if self._page(page) != self._page(page, self.disk)]

    def _page(self, page: int, of: bytearray | None = None) -> bytes:
        return bytes((self.cache if of is None else of)[page * PAGE : (page + 1) * PAGE])

    def _write_back(self, page: int) -> None:
        self.disk[page * PAGE : (page + 1) * PAGE] = self._page(page)
