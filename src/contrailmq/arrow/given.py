"""What a caller says in keywords, as the options that Spark's users know.

A keyword is an option's name in Python's spelling: ``fail_on_data_loss`` is ``failOnDataLoss``.
Spark's own spelling is accepted too.
"""

from __future__ import annotations

import datetime
import importlib.util
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias, TypedDict

from contrailmq.bulk.options import COMMITTED, EARLIEST, LATEST
from contrailmq.errors import ConfigError

Moment: TypeAlias = datetime.datetime | int | str
Offsets: TypeAlias = str | Mapping[str, Mapping[str, Mapping[int, int]]]

_WORDS: Final = (EARLIEST, LATEST, COMMITTED)
# A reader has no micro-batches, its parts are whole queues, and the caller filters its rows.
_FOR_SPARK: Final = (
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minPartitions",
    "maxRecordsPerPartition",
    "pushDown",
)


class AccessOptions(TypedDict, total=False):
    """How to reach a cluster."""

    access_key: str
    secret_key: str
    security_token: str
    timeout_ms: int
    patience_ms: int
    tls: bool
    tls_ca: str
    tls_cert: str
    tls_key: str
    tls_verify: str


class RangeOptions(TypedDict, total=False):
    """What is read, and how."""

    starting_offsets: Offsets
    ending_offsets: Offsets
    tags: str
    properties: str
    fail_on_data_loss: bool
    on_bad_message: str
    cores: int


class TopicOptions(AccessOptions, RangeOptions, total=False):
    """Options of ``read_topic``."""

    group: str
    sql: str
    topics_pattern: str
    assign: str | Mapping[str, Any]


class DirectoryOptions(RangeOptions, total=False):
    """Options of ``read_store``."""

    topics: str | Sequence[str]
    broker: str | Sequence[str]
    on_damage: str
    check_crc: bool


class WriteOptions(AccessOptions, total=False):
    """Options of ``write_table``."""

    group: str
    batch_size: int
    batch_count: int
    in_flight: int
    compress_over: int
    compression: str
    delivery: str
    query_id: str
    create_topic: int
    ordered: bool


def need_pyarrow() -> None:
    """Raise unless pyarrow and numpy are installed."""
    for name in ("pyarrow", "numpy"):
        if not _is_installed(name):
            raise ConfigError(
                f"contrailmq.arrow needs {name}, which is not installed;"
                " pip install 'contrailmq[arrow]' has it"
            )


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def option_texts(given: Mapping[str, Any], known: Collection[str]) -> dict[str, str]:
    """Keywords as texts of options; what is None is left out."""
    spelling = {name.lower(): name for name in known}
    found: dict[str, str] = {}
    for keyword, value in given.items():
        name = spelling.get(keyword.replace("_", "").lower(), keyword)
        if name in _FOR_SPARK:
            raise ConfigError(f"{keyword} is an option of Spark's readers alone; leave it out")
        if value is not None:
            found[name] = _text(keyword, value)
    return found


def range_texts(since: Moment | None, until: Moment | None) -> dict[str, str]:
    """``since`` and ``until`` as the options of the same meaning."""
    found: dict[str, str] = {}
    for keyword, which, value in (("since", "starting", since), ("until", "ending", until)):
        if value is None:
            continue
        is_word = isinstance(value, str) and value.lower() in _WORDS
        found[f"{which}{'Offsets' if is_word else 'Timestamp'}"] = _text(keyword, value)
    return found


def _text(keyword: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | Path):
        return str(value)
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return json.dumps(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return ",".join(_text(keyword, part) for part in value)
    raise ConfigError(
        f"{keyword} is {type(value).__name__}, expected a text, a number, a time or names"
    )
