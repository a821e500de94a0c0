"""Permission bits of topics and brokers, and the broker's own permission as an object.

Many read the broker's permission, one part changes it (a live update of ``brokerPermission``).
"""

from __future__ import annotations

from typing import Final

from contrailmq.broker.tables.revision import Revision
from contrailmq.protocol.bodies.topic import PERM_INHERIT, PERM_READ, PERM_WRITE

READ: Final = PERM_READ
WRITE: Final = PERM_WRITE
INHERIT: Final = PERM_INHERIT


def is_readable(perm: int) -> bool:
    """Whether consumers may read."""
    return perm & READ == READ


def is_writeable(perm: int) -> bool:
    """Whether producers may write."""
    return perm & WRITE == WRITE


def is_inherited(perm: int) -> bool:
    """Whether new topics may be made in the image of this one."""
    return perm & INHERIT == INHERIT


def text(perm: int) -> str:
    """``RW-``: how the original prints permissions."""
    return (
        ("R" if is_readable(perm) else "-")
        + ("W" if is_writeable(perm) else "-")
        + ("X" if is_inherited(perm) else "-")
    )


class BrokerPermission:
    """What this broker as a whole allows (``brokerPermission``)."""

    __slots__ = ("_bits", "_revision")

    def __init__(self, bits: int, revision: Revision) -> None:
        self._bits = bits
        self._revision = revision

    @property
    def bits(self) -> int:
        """The permission bits."""
        return self._bits

    @property
    def is_readable(self) -> bool:
        """Whether pulls are served."""
        return is_readable(self._bits)

    @property
    def is_writeable(self) -> bool:
        """Whether the broker takes messages."""
        return is_writeable(self._bits)

    def change(self, bits: int) -> None:
        """Set the permission; cached decisions end."""
        self._bits = bits
        self._revision.bump()
