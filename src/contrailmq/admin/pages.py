"""Reading a broker's tables in pages, for they may be larger than a frame.

A broker that knows pages (ours, and Java's newer than 5.3) says how many entries there are, and
begins anew when the table has changed in between.  Any other answers with everything at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from contrailmq.protocol.bodies.version import DataVersion

PAGE: Final = 2000
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One answer: the table's version, a part of it, and how many entries the whole has."""

    version: DataVersion
    part: dict[str, T]
    total: int | None


async def read_pages(ask: Callable[[int, str], Awaitable[Page[T]]]) -> dict[str, T]:
    """The whole table; ``ask`` gets how many entries are known, of which version (as JSON)."""
    table: dict[str, T] = {}
    seen: DataVersion | None = None
    while True:
        page = await ask(len(table), "" if seen is None else seen.encode().decode())
        if page.version != seen:
            table, seen = {}, page.version
        table.update(page.part)
        if page.total is None or len(table) >= page.total or not page.part:
            return table
