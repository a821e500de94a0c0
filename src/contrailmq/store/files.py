"""What the store asks of the operating system, and the operating system's answer.

A *segment* is a file of fixed size that is mapped for its whole life: its ``buffer`` is a
contiguous memoryview that compiled loops read and write.  Nothing here needs a real mapping: the
simulated files of ``contrailmq.testing`` hand out a view of a bytearray.

Calls that may block for long (``create``, ``reserve`` of much, ``populate``, ``sync``,
``write``) touch bytes and files only and are made for threads.
"""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from contrailmq.store.lock import OsLock
from contrailmq.store.mapping import OsSegment, raise_disk_full, sync_disk


class FileEntry(NamedTuple):
    """A regular file of a folder."""

    name: str
    size: int


class DiskUsage(NamedTuple):
    """Bytes of the file system a path lies on; ``free`` is what an ordinary user can have."""

    total: int
    used: int
    free: int

    @property
    def ratio(self) -> float:
        """How full it is, 0 to 1, as ``df`` reckons."""
        return self.used / (self.used + self.free) if self.used + self.free else -1.0


class Segment(Protocol):
    """One open file of fixed size."""

    @property
    def path(self) -> str:
        """Its path."""
        ...

    @property
    def size(self) -> int:
        """Its size, fixed at creation."""
        ...

    @property
    def buffer(self) -> memoryview:
        """All of its bytes; writable unless it was opened read-only."""
        ...

    @property
    def descriptor(self) -> int:
        """What a thread can call fsync with; -1 when only ``sync`` will do."""
        ...

    @property
    def address(self) -> int:
        """Where in memory it is mapped; 0 when it is not, or is closed."""
        ...

    @property
    def is_mapped(self) -> bool:
        """Whether its bytes may leave memory and come back from a disk."""
        ...

    def load(self, start: int, end: int) -> None:
        """Bring a range into memory. Blocks."""
        ...

    def has_data(self) -> bool:
        """Whether anything was ever written to it, as far as the file system tells."""
        ...

    def reserve(self, start: int, end: int) -> None:
        """Give a range real blocks, so that writing it cannot fail; DiskFull if none are left."""
        ...

    def zero(self, start: int, end: int) -> None:
        """Make a range zeros again, with real blocks."""
        ...

    def expect_scattered(self) -> None:
        """It will be read here and there: what surrounds a page is not worth loading."""
        ...

    def populate(self, start: int, end: int) -> None:
        """Make the pages of a range ready for writing. Content stays as it is."""
        ...

    def clear(self, position: int) -> bool:
        """Make everything from a position on zero; False when it surely was.

        Its blocks may go, so they have to be reserved again.
        """
        ...

    def write(self, position: int, data: bytes | bytearray | memoryview) -> int:
        """Write through the file, not the mapping; how many bytes were written, maybe fewer."""
        ...

    def sync(self) -> None:
        """Make everything written so far survive a power cut. Blocks; OSError when it fails."""
        ...

    def close(self) -> None:
        """Give up the file; views already handed out stay valid."""
        ...


class Files(Protocol):
    """A place for files. Paths are plain texts with ``/``."""

    def create(self, path: str, size: int, *, reserve: bool = True, hold: bool = True) -> Segment:
        """Make a file of zeros (or open what is there, grown to size), with real blocks.

        ``hold`` keeps a descriptor, without which an error of a background write could be missed.
        """
        ...

    def open(self, path: str, *, writable: bool = True, hold: bool = True) -> Segment:
        """Open an existing file in its present size."""
        ...

    def entries(self, folder: str) -> list[FileEntry]:
        """The regular files of a folder by name; empty when there is no such folder."""
        ...

    def folders(self, folder: str) -> list[str]:
        """Names of the folders in a folder, sorted."""
        ...

    def oddities(self, folder: str) -> list[str]:
        """Names of what is neither a file nor a folder (a pipe, a link that leads nowhere)."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        ...

    def read(self, path: str) -> bytes | None:
        """A small file's content; None when there is none."""
        ...

    def replace(self, path: str, data: bytes, *, backup: bool = False) -> None:
        """Write a small file; after a crash it has the old or the new content, no mixture."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        ...

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder; one that is not empty, or not there, is left."""
        ...

    def sync_folder(self, path: str) -> None:
        """Make creations and removals in a folder survive a power cut. Blocks."""
        ...

    def sync_files(self, paths: Sequence[str]) -> None:
        """Make what was written to files survive a power cut. Blocks; those that are gone count
        as synced, OSError when one fails."""
        ...

    def sync_disks(self, paths: Sequence[str]) -> bool:
        """The same for very many files and all folders: sync the disks they are on, once.

        False: this system cannot.
        """
        ...

    def modified_ms(self, path: str) -> int:
        """When a file last changed; 0 when it is not there."""
        ...

    def usage(self, path: str) -> DiskUsage:
        """How full the file system under a path is."""
        ...

    def memory_size(self) -> int:
        """Bytes of physical memory, most of which the kernel may use to cache files."""
        ...

    def mappings_max(self) -> int:
        """How many files a process may have mapped, with everything else that it maps."""
        ...

    def boot_id(self) -> bytes:
        """What names this boot of the machine; empty when it is not known."""
        ...

    def lock(self, path: str) -> Lock:
        """Take a store's lock file, or raise StoreLocked."""
        ...


class Lock(Protocol):
    """A lock that is held."""

    def release(self) -> None:
        """Let others have it; the file stays."""
        ...


class OsFiles:
    """The machine's own file system."""

    def create(self, path: str, size: int, *, reserve: bool = True, hold: bool = True) -> OsSegment:
        """Make a file of zeros with real blocks, and its folders."""
        folder = posixpath.dirname(path)
        if folder and not os.path.isdir(folder):  # noqa: PTH112 - a stat, on the append path
            os.makedirs(folder, exist_ok=True)  # noqa: PTH103
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if os.fstat(fd).st_size < size:
                os.ftruncate(fd, size)
            segment = OsSegment(path, fd, size=size, writable=True, hold=hold)
        except BaseException:
            os.close(fd)
            raise
        if reserve:
            try:
                segment.reserve(0, size)
            except BaseException:
                # The file stays, empty and without blocks: another call may be using it by now,
                # and the next one that needs it tries again.
                segment.close()
                raise
        return segment

    def open(self, path: str, *, writable: bool = True, hold: bool = True) -> OsSegment:
        """Open an existing file."""
        fd = os.open(path, (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            return OsSegment(path, fd, size=size, writable=writable, hold=hold)
        except BaseException:
            os.close(fd)
            raise

    def entries(self, folder: str) -> list[FileEntry]:
        """The regular files of a folder, by name."""
        try:
            with os.scandir(folder) as entries:
                return sorted(
                    FileEntry(entry.name, entry.stat().st_size)
                    for entry in entries
                    if entry.is_file()
                )
        except (FileNotFoundError, NotADirectoryError):
            return []

    def folders(self, folder: str) -> list[str]:
        """Names of the folders in a folder."""
        try:
            with os.scandir(folder) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def oddities(self, folder: str) -> list[str]:
        """Names of what is neither a file nor a folder."""
        try:
            with os.scandir(folder) as entries:
                return sorted(
                    entry.name for entry in entries if not entry.is_file() and not entry.is_dir()
                )
        except (FileNotFoundError, NotADirectoryError):
            return []

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        return os.path.exists(path)  # noqa: PTH110

    def read(self, path: str) -> bytes | None:
        """A small file's content."""
        with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:  # noqa: PTH123
            return file.read()
        return None

    def replace(self, path: str, data: bytes, *, backup: bool = False) -> None:
        """Write beside it, sync, rename; with ``backup`` the old content becomes ``.bak``."""
        folder = posixpath.dirname(path)
        os.makedirs(folder or ".", exist_ok=True)  # noqa: PTH103
        if backup:
            before = self.read(path)
            if before is not None:
                self._write_whole(path + ".bak", before)
        self._write_whole(path, data)
        self.sync_folder(folder)

    def _write_whole(self, path: str, data: bytes) -> None:
        fresh = path + ".tmp"
        try:
            with open(fresh, "wb") as file:  # noqa: PTH123
                file.write(data)
                file.flush()
                os.fdatasync(file.fileno())
        except OSError as error:
            raise_disk_full(error, path)
            raise
        os.replace(fresh, path)  # noqa: PTH105

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        try:
            os.unlink(path)  # noqa: PTH108
        except FileNotFoundError:
            return

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder."""
        try:
            os.rmdir(path)  # noqa: PTH106
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                raise

    def sync_folder(self, path: str) -> None:
        """fsync of the folder itself."""
        fd = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_files(self, paths: Sequence[str]) -> None:
        """fdatasync of one after another."""
        for path in paths:
            try:
                fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            try:
                os.fdatasync(fd)
            finally:
                os.close(fd)

    def sync_disks(self, paths: Sequence[str]) -> bool:
        """syncfs of every file system that holds one of the files."""
        disks: dict[int, str] = {}
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                disks.setdefault(os.stat(path).st_dev, path)  # noqa: PTH116
        return all(sync_disk(path) for path in disks.values())

    def modified_ms(self, path: str) -> int:
        """Time of the last change."""
        try:
            return os.stat(path).st_mtime_ns // 1_000_000  # noqa: PTH116
        except FileNotFoundError:
            return 0

    def usage(self, path: str) -> DiskUsage:
        """How full the file system under a path, or its nearest parent that exists, is."""
        while path and not os.path.exists(path):  # noqa: PTH110
            path = posixpath.dirname(path)
        facts = os.statvfs(path or ".")
        return DiskUsage(
            total=facts.f_blocks * facts.f_frsize,
            used=(facts.f_blocks - facts.f_bfree) * facts.f_frsize,
            free=facts.f_bavail * facts.f_frsize,
        )

    def memory_size(self) -> int:
        """Bytes of physical memory."""
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

    def mappings_max(self) -> int:
        """What Linux allows; other systems have no such limit."""
        found = self.read("/proc/sys/vm/max_map_count")
        return int(found) if found is not None and found.strip().isdigit() else 1 << 20

    def boot_id(self) -> bytes:
        """The kernel's own name of this boot (Linux); elsewhere it is not known."""
        return (self.read("/proc/sys/kernel/random/boot_id") or b"").strip()

    def lock(self, path: str) -> OsLock:
        """Take the lock file as Java does, and against other stores of this process too."""
        os.makedirs(posixpath.dirname(path) or ".", exist_ok=True)  # noqa: PTH103
        return OsLock(path)
