"""Ask whether a broker has a store directory open, without touching its lock.

The lock file is not even opened: closing any descriptor of it would take away a record lock that
this very process might hold.  The kernel's own table of locks says who holds what.
"""

from __future__ import annotations

import os
from pathlib import Path

_TABLE = Path("/proc/locks")


def is_locked(path: str) -> bool:
    """Whether somebody holds a lock on a store's lock file."""
    try:
        inode = os.stat(path).st_ino  # noqa: PTH116
        table = _TABLE.read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    for line in table.splitlines():
        # 12: POSIX  ADVISORY  WRITE 4711 fd:01:131072 0 0
        fields = line.split()
        if "->" not in fields and len(fields) >= 6 and fields[5].rpartition(":")[2] == str(inode):
            return True
    return False
