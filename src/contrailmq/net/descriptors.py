"""How many connections a process may take, by the number of files the system lets it open.

Every connection is a descriptor.  The store needs descriptors as well, for segments and for every
flush, and must never wait for a stranger to give one back: a part of the limit is held back for
it.  All servers of a process share the rest.
"""

from __future__ import annotations

import logging
import os
import resource
from collections.abc import Callable
from typing import Final

from contrailmq.errors import ConfigError

log = logging.getLogger(__name__)

HELD_BACK_SHARE: Final = 4  # a quarter of the limit is held back
HELD_BACK_MAX: Final = 4096
CONNECTIONS_LEAST: Final = 16


class Descriptors:
    """The connections of all servers that share it. Owned by the loop.

    ``on_room`` is called when a connection may be accepted after a pause.
    """

    def __init__(self, limit: int | None = None, *, in_use: int | None = None) -> None:
        """``limit`` is the number of open files the process may have, ``in_use`` has now."""
        self.limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if limit is None else limit
        self.held_back = min(self.limit // HELD_BACK_SHARE, HELD_BACK_MAX)
        used = _open_count() if in_use is None else in_use
        self.connections_max = self.limit - self.held_back - used
        if self.connections_max < CONNECTIONS_LEAST:
            raise ConfigError(
                f"the limit of open files is {self.limit}: {used} are open, {self.held_back} are "
                "held back for the store; raise it with ulimit -n"
            )
        self.count = 0
        self._waiting: list[Callable[[], None]] = []

    def room(self) -> int:
        """How many further connections there may be."""
        return self.connections_max - self.count

    def take(self) -> None:
        """A connection was made."""
        self.count += 1

    def give_back(self) -> None:
        """A connection has ended."""
        self.count -= 1
        if self._waiting and self.count < self.connections_max:
            waiting, self._waiting = self._waiting, []
            log.warning("connections are accepted again: open=%s", self.count)
            for resume in waiting:
                resume()

    def wait(self, resume: Callable[[], None]) -> None:
        """Call back when there is room again; say in the log that there is none."""
        if not self._waiting:
            log.warning(
                "no connection is accepted until one ends: open=%s limit=%s open_files_max=%s "
                "held_back=%s",
                self.count,
                self.connections_max,
                self.limit,
                self.held_back,
            )
        if resume not in self._waiting:
            self._waiting.append(resume)


def _open_count() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    except OSError:  # a system that does not say
        return 64
