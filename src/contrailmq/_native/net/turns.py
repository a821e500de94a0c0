# cython: annotation_typing=False
# ruff: noqa: ERA001
"""The reads of all connections of a server, one call a turn of the loop.

A loop that reads for its transports takes several steps for each socket that has something: a
callback, a buffer, a context.  With many connections of one request each these steps cost as much
as the requests.  Here the kernel is asked once which sockets of the set have something, and each of
them is read and handled at once (``Reads.receive``).  The loop only watches the set itself.

A socket that has ended is given back to its transport (``connection.give_back``), which reads the
end itself and tells its protocol, as ever.
"""

from __future__ import annotations

import contextlib
import select
from collections.abc import Callable

from contrailmq._native import raw, system
from contrailmq._native.net.reads import Reads

_ROOM = 64  # sockets of a turn; the others come next


class Turns:
    """A set of sockets; the loop calls ``run`` when ``fd`` is readable."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self._epoll = select.epoll()
        self.fd = self._epoll.fileno()
        self._members: dict[int, Reads] = {}
        self._found = bytearray(4 * _ROOM)
        self._found_address = raw.at_address(self._found)
        self._words = memoryview(self._found).cast("i")

    def __len__(self) -> int:
        return len(self._members)

    def add(self, reads: Reads) -> None:
        """Read this one from now on; nothing else may read its socket."""
        self._epoll.register(reads.fd, select.EPOLLIN)
        self._members[reads.fd] = reads

    def remove(self, reads: Reads) -> None:
        """Read it no more; of one that is not read here nothing happens."""
        if self._members.get(reads.fd) is reads:
            del self._members[reads.fd]
            with contextlib.suppress(OSError):  # closed, and so gone from the set
                self._epoll.unregister(reads.fd)

    def run(self) -> None:
        """Read and handle what there is."""
        now = self.now()
        for index in range(system.ready(self._epoll, self.fd, self._found_address, _ROOM)):
            found = self._members.get(self._words[index])
            if found is None:  # one before it has closed it
                continue
            reads: Reads = found
            try:
                if not reads.receive(now):
                    self.remove(reads)
                    reads.connection.give_back()
            except Exception as error:
                reads.connection.reject(error)

    def close(self) -> None:
        """The end of the set; its sockets are their transports' own."""
        self._members.clear()
        self._epoll.close()
