"""Rows of Arrow batches as messages: which column goes where, which queue a row goes to.

Columns: ``body`` (required; binary or string), ``keys`` (a string with blanks between keys, or an
array of strings), ``tags``, ``properties`` (map), ``topic``, ``unique_key``, ``deliver_at`` (a
timestamp, or milliseconds since 1970: consumers get the message then), ``delay_level`` (one of the
broker's delays, from 1; 0 and null are none).  Other columns are not written, so what
was read from a topic can be written as it is; of its properties those that brokers and clients make
themselves are left out.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from contrailmq._native.spark.batch_rows import Encoder, Pairs, Spans, hash_rows
from contrailmq.client.message import DELAY_LEVEL_MAX
from contrailmq.errors import ConfigError
from contrailmq.protocol.compression import Compression, compress
from contrailmq.protocol.properties import (
    PROPERTY_DELAY,
    PROPERTY_KEYS,
    PROPERTY_SHARDING_KEY,
    PROPERTY_TAGS,
    PROPERTY_TIMER_DELIVER_MS,
    PROPERTY_UNIQUE_KEY,
    RESERVED_PROPERTIES,
)

SPREAD_ROWS: Final = 512  # rows without a key go to one queue in runs of so many: fuller batches
_TEXT_COLUMNS: Final = {
    "keys": PROPERTY_KEYS,
    "tags": PROPERTY_TAGS,
    "unique_key": PROPERTY_UNIQUE_KEY,
}
_NO_BYTES: Final = b""
_SEPARATORS: Final = ("\x01", "\x02")  # of names and values in a stored message


class Numbering(NamedTuple):
    """How rows get unique keys: ``origin`` is 8 bytes, ``time`` 4; the row number does the rest."""

    origin: bytes
    time: bytes

    def unique_key(self, row: int) -> str:
        """The unique key of a row, as the encoder writes it."""
        number = row.to_bytes(4, "big")
        return (self.origin + number[:2] + self.time + number[2:]).hex().upper()


class Run(NamedTuple):
    """Rows for one queue, in order, of one kind: all compressed or none, all delayed or none."""

    topic: str
    queue_index: int
    rows: array[int]
    is_compressed: bool
    is_timed: bool = False


class RowBatch:
    """One Arrow batch on its way into messages."""

    def __init__(
        self,
        batch: Any,
        *,
        numbering: Numbering,
        base: int,
        own_keys: bool,
        compress_over: int,
        compression: Compression,
    ) -> None:
        """``base`` is the number of its first row; ``own_keys``: a unique_key column counts."""
        self._columns = {name: batch.column(name) for name in batch.schema.names}
        self.count = batch.num_rows
        self.base = base
        body, self._compressed = _bodies(self._columns["body"], compress_over, compression)
        self._keys = _keys(self._columns.get("keys"))
        texts = []
        for name, wire_name in _TEXT_COLUMNS.items():
            column = self._keys if name == "keys" else self._columns.get(name)
            if column is not None and (name != "unique_key" or own_keys):
                texts.append(_spans(wire_name, column))
        moments = _moments(self._columns.get("deliver_at"))
        levels = _levels(self._columns.get("delay_level"))
        self._timed = _either(moments, levels)
        for wire_name, column in ((PROPERTY_TIMER_DELIVER_MS, moments), (PROPERTY_DELAY, levels)):
            if column is not None:
                texts.append(_spans(wire_name, column))
        self.encoder = Encoder(_spans("", body), texts, self._pairs())
        if not (own_keys and "unique_key" in self._columns):
            self.encoder.number(numbering.origin, numbering.time, base)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """What the encoder says against a row, as an error that names column and value."""
        try:
            yield
        except ValueError:
            if self.encoder.bad_row < 0:
                raise
            raise ConfigError(
                f"a row cannot be written: {self._fault(self.encoder.bad_row)}"
            ) from None

    def _fault(self, row: int) -> str:
        values = {name: column[row].as_py() for name, column in self._columns.items()}
        if values["body"] is None:
            return "its body is null"
        texts = {name: values[name] for name in ("tags", "unique_key") if values.get(name)}
        if self._keys is not None:
            texts["keys"] = self._keys[row].as_py() or ""
        for name, value in dict(values.get("properties") or {}).items():
            texts[f"properties[{name!r}]"] = name + (value or "")
        for name, text in texts.items():
            if any(separator in text for separator in _SEPARATORS):
                return f"{name} {text[:80]!r} has a separator of properties (\\x01, \\x02) in it"
        size = sum(len(text.encode()) for text in texts.values())
        return f"its properties are too long: about {size} bytes, at most 32767"

    def topics(self, default: str | None) -> Iterator[tuple[str, Any]]:
        """Each topic of the batch with the numbers of its rows; None means all rows."""
        if default is not None:
            yield default, None
            return
        names = self._columns["topic"].dictionary_encode()
        if names.null_count:
            raise ConfigError("a row has no topic: the column topic is null")
        indices = np.asarray(names.indices)
        for index, name in enumerate(names.dictionary.to_pylist()):
            yield name, np.flatnonzero(indices == index)

    def runs(self, topic: str, rows: Any, *, queue_count: int, salt: int) -> Iterator[Run]:
        """The rows of a topic by queue; rows with equal first keys go to one queue."""
        chosen = self._choose(queue_count, salt)
        if rows is None:
            order = np.argsort(chosen, kind="stable")
        else:
            order = rows[np.argsort(chosen[rows], kind="stable")]
        borders = np.searchsorted(chosen[order], np.arange(queue_count + 1))
        for index in range(queue_count):
            mine = order[borders[index] : borders[index + 1]]
            if len(mine) == 0:
                continue
            changes: Any = np.zeros(max(0, len(mine) - 1), bool)
            for flags in (self._compressed, self._timed):
                if flags is not None:
                    changes |= flags[mine][1:] != flags[mine][:-1]
            for part in np.split(mine, np.flatnonzero(changes) + 1):
                kinds = [
                    bool(flags is not None and flags[part[0]])
                    for flags in (self._compressed, self._timed)
                ]
                yield Run(topic, index, _numbers(part), *kinds)

    def _choose(self, queue_count: int, salt: int) -> Any:
        numbers = np.arange(self.base, self.base + self.count)
        spread = ((numbers // SPREAD_ROWS + salt) % queue_count).astype(np.int32)
        if self._keys is None:
            return spread
        chosen = np.empty(self.count, np.int32)
        hash_rows(_spans("", self._keys), self.count, queue_count, chosen)
        return np.where(chosen == -1, spread, chosen)

    def _pairs(self) -> Pairs | None:
        column = self._columns.get("properties")
        if column is None:
            return None
        names, values = column.keys, column.items
        dropped = RESERVED_PROPERTIES - {PROPERTY_SHARDING_KEY}
        dropped -= {wire for name, wire in _TEXT_COLUMNS.items() if name not in self._columns}
        dropped |= {PROPERTY_UNIQUE_KEY}
        skip = np.zeros(len(names), np.uint8)
        if len(names):
            encoded = names.dictionary_encode()
            flags = np.array([n in dropped for n in encoded.dictionary.to_pylist()], np.uint8)
            skip = flags[np.asarray(encoded.indices)]
        validity, offsets = column.buffers()[:2]
        return Pairs(
            _ints(offsets, column.offset + len(column) + 1),
            _NO_BYTES if validity is None else memoryview(validity).cast("B"),
            column.offset,
            _spans("", names),
            _spans("", values),
            skip,
        )


def _spans(name: str, column: Any) -> Spans:
    if pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type):
        column = column.cast(pa.binary())
    validity, offsets, data = column.buffers()
    return Spans(
        name.encode(),
        _ints(offsets, column.offset + len(column) + 1),
        _NO_BYTES if data is None else memoryview(data).cast("B"),
        _NO_BYTES if validity is None else memoryview(validity).cast("B"),
        column.offset,
    )


def _ints(buffer: Any, count: int) -> Any:
    if buffer is None or buffer.size == 0:
        return memoryview(bytes(4)).cast("i")
    return memoryview(buffer).cast("B").cast("i")[:count]


def _keys(column: Any) -> Any:
    if column is None or not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        return column
    if column.flatten().null_count:  # a join with a null in it would be null altogether
        lists = column.to_pylist()
        return pa.array(
            [None if keys is None else " ".join(filter(None, keys)) for keys in lists], pa.string()
        )
    return pc.binary_join(column, " ")


def _moments(column: Any) -> Any:
    """Due times as texts of milliseconds; None when no row has one."""
    if column is None or column.null_count == len(column):
        return None
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
    return column.cast(pa.string())


def _levels(column: Any) -> Any:
    """Delay levels as texts; None when no row has one."""
    if column is None:
        return None
    wrong = pc.fill_null(pc.or_(pc.less(column, 0), pc.greater(column, DELAY_LEVEL_MAX)), False)
    if pc.any(wrong).as_py():
        value = column.filter(wrong)[0].as_py()
        raise ConfigError(
            f"delay_level {value}: expected 1 to {DELAY_LEVEL_MAX}, 0 or null for no delay"
        )
    given = pc.if_else(pc.equal(column, 0), None, column)
    return None if given.null_count == len(given) else given.cast(pa.string())


def _either(moments: Any, levels: Any) -> Any:
    """Which rows have a time or a delay; None when none has. No row may have both."""
    if moments is None or levels is None:
        found = levels if moments is None else moments
        return None if found is None else np.asarray(found.is_valid())
    timed, delayed = np.asarray(moments.is_valid()), np.asarray(levels.is_valid())
    if (timed & delayed).any():
        row = int(np.flatnonzero(timed & delayed)[0])
        raise ConfigError(
            f"a row has deliver_at {moments[row]} and delay_level {levels[row]}; give it one of"
            " them, and null for the other"
        )
    return timed | delayed


def _bodies(column: Any, over: int, compression: Compression) -> tuple[Any, Any]:
    """The bodies, large ones compressed, and which those are; None when none is."""
    if not over:
        return column, None
    large = pc.fill_null(pc.greater_equal(pc.binary_length(column), over), False)
    if not pc.any(large).as_py():
        return column, None
    flags = np.asarray(large)
    bodies = column.cast(pa.binary()).to_pylist()
    for row in np.flatnonzero(flags):
        bodies[row] = compress(bodies[row], compression)
    return pa.array(bodies, pa.binary()), flags


def _numbers(rows: Any) -> array[int]:
    found = array("q")
    found.frombytes(rows.astype(np.int64).tobytes())
    return found
