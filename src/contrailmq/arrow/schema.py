"""The columns of a message as an Arrow schema: the same names and types as in Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from contrailmq.bulk.rows import DAMAGE
from contrailmq.errors import ConfigError

_TIME: Final = pa.timestamp("us", tz="UTC")
_TYPES: Final[dict[str, Any]] = {
    "topic": pa.string(),
    "broker": pa.string(),
    "queue_id": pa.int32(),
    "queue_offset": pa.int64(),
    "body": pa.binary(),
    "keys": pa.string(),
    "tags": pa.string(),
    "born_time": _TIME,
    "store_time": _TIME,
    "born_host": pa.string(),
    "message_id": pa.string(),
    "unique_key": pa.string(),
    "properties": pa.map_(pa.string(), pa.string()),
    "reconsume_times": pa.int32(),
    "sys_flag": pa.int32(),
    "commit_log_offset": pa.int64(),
}


def message_schema(columns: Sequence[str] | None = None, *, with_damage: bool = False) -> Any:
    """The ``pyarrow.Schema`` of some columns in the order given, or of all."""
    types = {**_TYPES, DAMAGE: pa.string()} if with_damage else _TYPES
    if isinstance(columns, str):
        raise ConfigError(f"columns={columns!r} is a text, expected a list of names")
    chosen = list(types) if columns is None else list(columns)
    unknown = [name for name in chosen if name not in types]
    if unknown:
        raise ConfigError(f"no column {unknown[0]!r}; there are {', '.join(types)}")
    twice = [name for name in dict.fromkeys(chosen) if chosen.count(name) > 1]
    if twice:
        raise ConfigError(f"column {twice[0]} is named twice; name it once")
    if not chosen:
        raise ConfigError("columns is empty; name at least one, or leave it out for all")
    return pa.schema([pa.field(name, types[name]) for name in chosen])
