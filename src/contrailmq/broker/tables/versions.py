"""Data versions: how a broker says that a table has changed, also to those who read it in pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from contrailmq.clock import Clock
from contrailmq.errors import ProtocolError
from contrailmq.protocol.bodies.version import DataVersion

PAGE_MAX: Final = 2000  # splitMetadataSize
_Config = TypeVar("_Config")


class VersionCounter:
    """The data version of one table; equal versions mean equal tables (DataVersion)."""

    __slots__ = ("_clock", "value")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.value = DataVersion(timestamp=clock.now_ms())

    def bump(self) -> None:
        """The table has changed."""
        self.value = self.value.next(self._clock.now_ms(), state_version=self.value.state_version)

    def raise_state(self, epoch: int) -> None:
        """The table is now one of a primary of this epoch."""
        self.value = self.value.next(self._clock.now_ms(), state_version=epoch)


def page(
    table: Mapping[str, _Config], version: DataVersion, *,
    seen: str | None, start: int | None, count: int | None,
) -> dict[str, _Config]:  # fmt: skip
    """Part of a table by name: at most ``count`` entries behind the first ``start``.

    Whoever has ``seen`` another version than this one (or none) begins anew.
    """
    first = max(start or 0, 0) if _is_same(seen, version) else 0
    most = min(PAGE_MAX if count is None else max(count, 1), PAGE_MAX)
    return {name: table[name] for name in sorted(table)[first : first + most]}


def _is_same(seen: str | None, version: DataVersion) -> bool:
    if seen is None or not seen.strip():
        return False
    try:
        return DataVersion.decode(seen.encode()) == version
    except ProtocolError:
        return False
