"""What of a query's WHERE clause can be done before rows are made.

Filters on topic, broker, queue and offset are done completely here.  Those on times and tags narrow
what is read, and Spark checks the rows again: store times of a queue rise but for the clock's
leaps, and brokers compare only hash codes of tags.

This is by option (``pushDown=true``) only, and for a DataFrame that is used in one query, in one
place.  Spark (4.1 to 4.3) keeps what a Python source planned under the filters of one query in the
DataFrame and uses it for the next: ``df.where("queue_id = 1").count()`` and then ``df.count()``
gives the rows of queue 1 twice.  Options that narrow (startingTimestamp, tags, assign …) are
always safe.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec.structs import replace
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from contrailmq.bulk.narrowing import Narrowing

_ALWAYS_THERE: Final = frozenset(
    {"topic", "broker", "queue_id", "queue_offset", "store_time", "born_time", "commit_log_offset"}
)
CLOCK_SLACK_MS: Final = 60_000  # a broker's clock may have been set back within a queue


def narrow(filters: Iterable[Filter]) -> tuple[Narrowing, list[Filter]]:
    """What the filters allow together, and those that Spark has to check itself."""
    found = Narrowing()
    rest: list[Filter] = []
    for condition in filters:
        narrowed, is_exact = _apply(found, condition)
        found = narrowed
        if not is_exact:
            rest.append(condition)
    return found, rest


class PushFilters:
    """A reader's ``pushFilters`` that Spark accepts with push-down switched on or off.

    Spark refuses a reader with a method of this name while
    ``spark.sql.python.filterPushdown.enabled`` is off, which is its default; it recognizes the
    method by ``__func__``.  Where it is on, the call arrives here.
    """

    __func__ = DataSourceReader.pushFilters

    def __init__(self) -> None:
        self.narrowing = Narrowing()

    def __call__(self, filters: Sequence[Filter]) -> Iterable[Filter]:
        """Take what can be done; answer with what Spark has to do."""
        self.narrowing, rest = narrow(filters)
        return rest


def _apply(found: Narrowing, condition: Filter) -> tuple[Narrowing, bool]:
    attribute: tuple[str, ...] = getattr(condition, "attribute", ())
    if len(attribute) != 1:
        return found, False
    name = attribute[0]
    if isinstance(condition, IsNotNull):
        return found, name in _ALWAYS_THERE
    values = _values(condition)
    if values is not None:
        return _apply_values(found, name, values)
    value = getattr(condition, "value", None)
    if value is None:
        return found, False
    if isinstance(condition, GreaterThan | GreaterThanOrEqual):
        return _apply_lower(found, name, value, strict=isinstance(condition, GreaterThan))
    if isinstance(condition, LessThan | LessThanOrEqual):
        return _apply_upper(found, name, value, strict=isinstance(condition, LessThan))
    return found, False


def _values(condition: Filter) -> frozenset[Any] | None:
    """The only values a condition allows, if it lists them."""
    if isinstance(condition, EqualTo | EqualNullSafe):
        return None if condition.value is None else frozenset([condition.value])
    if isinstance(condition, In):
        return frozenset(value for value in condition.value if value is not None)
    return None


def _apply_values(found: Narrowing, name: str, values: frozenset[Any]) -> tuple[Narrowing, bool]:
    if name == "topic":
        return replace(found, topics=_both(found.topics, values)), True
    if name == "broker":
        return replace(found, brokers=_both(found.brokers, values)), True
    if name == "queue_id":
        return replace(found, queue_ids=_both(found.queue_ids, values)), True
    if name == "tags":
        return replace(found, tags=_both(found.tags, values)), False
    if name == "queue_offset" and values:
        narrowed, _ = _apply_lower(found, name, min(values), strict=False)
        narrowed, _ = _apply_upper(narrowed, name, max(values), strict=False)
        return narrowed, len(values) == 1
    if name == "store_time" and values:
        narrowed, _ = _apply_lower(found, name, min(values), strict=False)
        return _apply_upper(narrowed, name, max(values), strict=False)
    return found, False


def _apply_lower(
    found: Narrowing, name: str, value: Any, *, strict: bool
) -> tuple[Narrowing, bool]:
    if name == "queue_offset":
        first = int(value) + strict
        return replace(found, first_offset=_largest(found.first_offset, first)), True
    if name == "store_time":
        begin = _ms(value) - CLOCK_SLACK_MS
        return replace(found, begin_ms=_largest(found.begin_ms, begin)), False
    return found, False


def _apply_upper(
    found: Narrowing, name: str, value: Any, *, strict: bool
) -> tuple[Narrowing, bool]:
    if name == "queue_offset":
        end = int(value) + (not strict)
        return replace(found, end_offset=_smallest(found.end_offset, end)), True
    if name == "store_time":
        end = _ms(value) + 1 + CLOCK_SLACK_MS
        return replace(found, end_ms=_smallest(found.end_ms, end)), False
    return found, False


def _both(known: frozenset[Any] | None, values: frozenset[Any]) -> frozenset[Any]:
    return values if known is None else known & values


def _largest(known: int | None, value: int) -> int:
    return value if known is None else max(known, value)


def _smallest(known: int | None, value: int) -> int:
    return value if known is None else min(known, value)


def _ms(moment: datetime.datetime) -> int:
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return int(moment.timestamp() * 1000)
