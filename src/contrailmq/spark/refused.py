"""A stream that cannot be: what is wrong with it is said when Spark first asks for anything.

Spark 4.0 to 4.3 close the reader of a stream also when there is none: an error while it is made
ends as "cannot access local variable 'reader'", with the reason above it in the stack trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from contrailmq.errors import ContrailError
from contrailmq.spark.versions import ReadLimit, SupportsTriggerAvailableNow


class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Answers every question with the same error."""

    def __init__(self, error: ContrailError) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:
        """Raises the error."""
        raise self._error

    def latestOffset(
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Raises the error."""
        raise self._error

    def getDefaultReadLimit(self) -> ReadLimit:
        """Raises the error."""
        raise self._error

    def prepareForTriggerAvailableNow(self) -> None:
        """Raises the error."""
        raise self._error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Raises the error."""
        raise self._error

    def read(self, partition: InputPartition) -> Any:
        """Raises the error."""
        raise self._error
