"""The figures of one server, with what all of them have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from contrailmq.metrics.model import Group, Source


@dataclass(slots=True)
class Told:
    """Sources of one server; ``scope`` and ``common`` are labels of every point."""

    scope: str
    common: Mapping[str, str]
    sources: Sequence[Source] = field(default_factory=list)

    def groups(self) -> Iterator[Group]:
        """All families of all sources, one after another."""
        for source in self.sources:
            yield from source()
