"""Files of fixed size, mapped for their whole life.

Mapping is done through the C library and not through ``mmap.mmap``, for three measured reasons:
``mmap.mmap`` keeps a duplicate of the file descriptor for every mapping (ten thousand queues are
ten thousand descriptors), its ``flush`` and ``madvise`` hold the interpreter lock for their whole
duration, and it cannot be closed while a view exists.  Here the mapping lives exactly as long as
the last view of it: ``close`` drops ours, a reader in the middle of a copy keeps the pages, and a
removed file vanishes with the last reader.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import posixpath
import stat
import weakref
from typing import Final

from contrailmq.errors import DiskFull, StoreError

MADV_RANDOM: Final = 1
MADV_POPULATE_READ: Final = 22  # Linux 5.14
MADV_POPULATE_WRITE: Final = 23  # Linux 5.14
FALLOC_FL_KEEP_SIZE: Final = 1
FALLOC_FL_PUNCH_HOLE: Final = 2
FALLOC_ZERO_RANGE: Final = 0x11  # and keep the size
PAGE: Final = mmap.PAGESIZE
_ZERO_STEP: Final = 1 << 20


class OsSegment:
    """A mapped file."""

    __slots__ = ("_address", "_buffer", "_fd", "_writable", "path", "size")
    is_mapped = True

    def __init__(self, path: str, fd: int, *, size: int, writable: bool, hold: bool) -> None:
        """Take over ``fd``; it is closed at once unless ``hold``."""
        self.path = path
        self.size = size
        self._writable = writable
        self._address, self._buffer = _map(fd, size, writable=writable)
        self._fd = fd if hold else -1
        if not hold:
            os.close(fd)

    @property
    def buffer(self) -> memoryview:
        """All bytes of the file."""
        if self._buffer is None:
            raise StoreError(f"{self.path} is closed")
        return self._buffer

    @property
    def descriptor(self) -> int:
        """The descriptor that is held, or -1."""
        return self._fd

    @property
    def address(self) -> int:
        """Where it is mapped; 0 when it is closed."""
        return 0 if self._buffer is None else self._address

    def load(self, start: int, end: int) -> None:
        """Read a range in large requests and fault it in, without the interpreter lock."""
        start -= start % PAGE
        end = min(end, self.size)
        view = self._buffer  # keeps the mapping while the kernel works on it
        if view is None or end <= start:
            return
        address, length = ctypes.c_void_p(self._address + start), ctypes.c_size_t(end - start)
        _libc.madvise(address, length, mmap.MADV_WILLNEED)  # all of it at once, and no more
        if _libc.madvise(address, length, MADV_POPULATE_READ) != 0:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)  # an older kernel
            try:
                for position in range(start, end, _ZERO_STEP):
                    os.pread(fd, min(_ZERO_STEP, end - position), position)
            finally:
                os.close(fd)

    def has_data(self) -> bool:
        """Whether anything was ever written to it; asks the file system and reads nothing."""
        fd = self._fd if self._fd >= 0 else os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return not _is_hole(fd, 0)
        finally:
            if fd != self._fd:
                os.close(fd)

    def reserve(self, start: int, end: int) -> None:
        """Real blocks for a range."""
        fd = self._fd if self._fd >= 0 else os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.posix_fallocate(fd, start, end - start)
        except OSError as error:
            raise_disk_full(error, self.path)
            raise
        finally:
            if fd != self._fd:
                os.close(fd)

    def zero(self, start: int, end: int) -> None:
        """Make a range zeros, with real blocks; quick where the file system can, else written."""
        fd = self._fd if self._fd >= 0 else os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            length = ctypes.c_long(end - start)
            if _libc.fallocate(fd, FALLOC_ZERO_RANGE, ctypes.c_long(start), length) == 0:
                return
        finally:
            if fd != self._fd:
                os.close(fd)
        self.reserve(start, end)
        for position in range(start, end, _ZERO_STEP):
            size = min(_ZERO_STEP, end - position)
            self.buffer[position : position + size] = bytes(size)

    def expect_scattered(self) -> None:
        """No read-around: ten thousand queues would fill more than a gigabyte with zeros."""
        if self._buffer is not None and self.size:
            _libc.madvise(ctypes.c_void_p(self._address), ctypes.c_size_t(self.size), MADV_RANDOM)

    def populate(self, start: int, end: int) -> None:
        """Fault a range in for writing, without the interpreter lock."""
        start -= start % PAGE
        end = min(-(-end // PAGE) * PAGE, -(-self.size // PAGE) * PAGE)
        view = self._buffer  # keeps the mapping while the kernel works on it
        if view is None or end <= start:
            return
        address = ctypes.c_void_p(self._address + start)
        if _libc.madvise(address, ctypes.c_size_t(end - start), MADV_POPULATE_WRITE) != 0:
            # An older kernel. Reading maps a page; the write fault that remains is the small one.
            for position in range(start, min(end, self.size), PAGE):
                view[position]

    def clear(self, position: int) -> bool:
        """Punch a hole, which costs nothing however long it is; else write zeros."""
        fd = self._fd if self._fd >= 0 else os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            if position >= self.size or _is_hole(fd, position):
                return False
            mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
            if _libc.fallocate(fd, mode, position, self.size - position) != 0:
                self.buffer[position:] = bytes(self.size - position)
            return True
        finally:
            if fd != self._fd:
                os.close(fd)

    def write(self, position: int, data: bytes | bytearray | memoryview) -> int:
        """pwrite: no page fault, no interpreter lock."""
        fd = self._fd if self._fd >= 0 else os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            return os.pwrite(fd, data, position)
        except OSError as error:
            raise_disk_full(error, self.path)
            raise
        finally:
            if fd != self._fd:
                os.close(fd)

    def sync(self) -> None:
        """fdatasync: writes the dirty pages of the mapping too, and lets other threads run."""
        fd = self._fd if self._fd >= 0 else os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.fdatasync(fd)
        finally:
            if fd != self._fd:
                os.close(fd)

    def close(self) -> None:
        """Close the descriptor and drop our view; the mapping goes with the last view."""
        self._buffer = None
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __repr__(self) -> str:
        return f"<OsSegment {self.path} size={self.size}>"


def _is_hole(fd: int, position: int) -> bool:
    try:
        os.lseek(fd, position, os.SEEK_DATA)
    except OSError as error:
        return error.errno == errno.ENXIO  # otherwise this file system does not say
    return False


def _open_libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    ]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
    return libc


_libc: Final = _open_libc()
_MAP_FAILED: Final = ctypes.c_void_p(-1).value


def _map(fd: int, size: int, *, writable: bool) -> tuple[int, memoryview | None]:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise StoreError("only a regular file can be mapped")
    if size == 0:
        return 0, memoryview(b"")
    protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    address = _libc.mmap(None, size, protection, mmap.MAP_SHARED, fd, 0)
    if address == _MAP_FAILED or address is None:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    area = (ctypes.c_ubyte * size).from_address(address)
    weakref.finalize(area, _libc.munmap, address, size).atexit = False
    view = memoryview(area).cast("B")
    return address, view if writable else view.toreadonly()


def sync_disk(path: str) -> bool:
    """Sync the file system a file is on; OSError when it fails, False where it cannot be done.

    Since Linux 5.8 it reports a page that could not be written, as fdatasync of its file does.
    """
    syncfs = getattr(_libc, "syncfs", None)
    if syncfs is None:
        return False
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if syncfs(fd) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), path)
    finally:
        os.close(fd)
    return True


def raise_disk_full(error: OSError, path: str) -> None:
    """Turn "no space" into DiskFull with the numbers; let any other error be."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return
    facts = os.statvfs(posixpath.dirname(path) or ".")
    raise DiskFull(
        f"no room for {path}: {facts.f_bavail * facts.f_frsize} of "
        f"{facts.f_blocks * facts.f_frsize} bytes free"
    ) from error
