"""Stand-ins for classes that came with PySpark 4.2, and what a stream's reader does without them.

Before 4.2 Spark asks ``latestOffset()`` and says neither where the stream is nor how much it may
read nor which trigger it has.  Under ``availableNow`` it asks once, runs one batch up to the answer
and is done, so the first answer of a run has to be everything there is.  Limits hold from the
second answer on: those are the ones of triggers that go on.  Where the stream is shows in the
batches that Spark asks to be divided.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from contrailmq.spark.journal import Offset

log = logging.getLogger(__name__)


class ReadLimit:
    """How much a batch may have."""


class ReadAllAvailable(ReadLimit):
    """All there is."""


@dataclass
class ReadMinRows(ReadLimit):
    """So many rows at least."""

    min_rows: int


@dataclass
class ReadMaxRows(ReadLimit):
    """So many rows at most."""

    max_rows: int


@dataclass
class ReadMaxBytes(ReadLimit):
    """So many bytes at most."""

    max_bytes: int


class SupportsTriggerAvailableNow:
    """Nothing is asked of such a reader."""


class Memory:
    """Where a stream is, as far as its reader can tell from what it was asked."""

    def __init__(self) -> None:
        self._at: Offset | None = None
        self._is_first = True

    def note(self, end: Offset) -> None:
        """A batch up to here is under way, or done."""
        self._at = end

    def start(self, symbol: Offset) -> Offset:
        """Where the next batch begins; ``symbol`` where that cannot be told."""
        return symbol if self._at is None else self._at

    def limit(self, usual: ReadLimit) -> ReadLimit:
        """The limit of the next batch."""
        if not self._is_first:
            return usual
        self._is_first = False
        if not isinstance(usual, ReadAllAvailable):
            log.warning(
                "the first batch of this run reads all there is: its limit needs PySpark 4.2;"
                " with this one it holds for the batches after it limit=%s",
                usual,
            )
        return ReadAllAvailable()
