"""Targets of the message formats: records, properties, batches, ids, bodies, SQL92, columns."""

from __future__ import annotations

import base64
import contextlib
from types import ModuleType

from contrailmq._native import hashing
from contrailmq._native import record as record_map
from contrailmq.errors import CorruptRecord, FilterError, RemoteProtocolError
from contrailmq.protocol import columns
from contrailmq.protocol.batch import decode_batch, encode_batch
from contrailmq.protocol.columns import COLUMNS, RecordColumns
from contrailmq.protocol.compression import Compression, compress, decompress
from contrailmq.protocol.filter.sql import SqlError, compile_sql
from contrailmq.protocol.filter.tags import parse_tags
from contrailmq.protocol.message import Record, decode_record, decode_records, encode_record
from contrailmq.protocol.properties import decode_properties, encode_properties
from testkit.builds import native_module
from testkit.golden import VERSIONS, store_directories, vectors
from testkit.record_walk import record_positions, walk_records

COMPILED = native_module("records", pure=False)
PURE = native_module("records", pure=True)
PURE_HASHING = native_module("hashing", pure=True)
PURE_ARROW = (native_module("spark.arrow", pure=True), native_module("spark.arrow_fill", pure=True))
BODY_SIZE_MAX = 1 << 20


class PureRecord(PURE.RecordFields):  # type: ignore[misc,name-defined]
    """A record of the uncompiled build."""


def record_seeds() -> list[bytes]:
    """Records of every golden store, alone and in threes."""
    found: list[bytes] = []
    for store in store_directories():
        for path in sorted((store.path / "commitlog").iterdir())[:2]:
            data = path.read_bytes()
            positions, stop, _ = walk_records(data)
            ends = [*positions[1:], stop][:12]
            found += [data[a:b] for a, b in zip(positions, ends, strict=False)][::4]
            found.append(data[: ends[min(2, len(ends) - 1)]])
    assert found
    return found


def outcome(native: ModuleType, data: bytes, make: type) -> object:
    """What a build decodes, or where it stops."""
    try:
        records = native.decode_records(data, make, 1 << 40, False)
    except native.RecordDamage as error:
        return (error.reason, error.position)
    return [
        (r.topic, r.queue_offset, r.commit_log_offset, r.born_ms, r.store_ms, r.sys_flag, r.body)
        for r in records
    ]


def check_records(data: bytes) -> None:
    """Both builds find and decode the same; only our errors come out."""
    positions, stop, reason = walk_records(data)
    found = outcome(COMPILED, data, Record)
    assert found == outcome(PURE, data, PureRecord)
    if reason == record_map.END:
        assert isinstance(found, list)
        assert len(found) == len(positions)
    else:
        assert found == (reason, stop)
    for check_crc in (False, True):
        try:
            for record in decode_records(data, check_crc=check_crc):
                assert record.properties == PURE.decode_properties(record.properties_bytes)
                assert len(record.offset_message_id) in (32, 56)
                assert record.born_host and record.store_host
        except RemoteProtocolError:
            pass
    try:
        record = decode_record(data)
    except CorruptRecord:
        return
    again = decode_record(
        encode_record(
            topic=record.topic,
            body=record.body,
            properties=record.properties_bytes[:32767],
            born_ms=record.born_ms,
            born_host=record.born_host_bytes,
            store_host=record.store_host_bytes,
        ),
        check_crc=True,
    )
    assert (again.topic, again.body, again.born_host) == (
        record.topic,
        record.body,
        record.born_host,
    )


def check_columns(data: bytes) -> None:
    """Columns of both builds are the same, and those of the decoder."""
    positions = record_positions(data)
    results: list[object] = []
    pair = (columns.arrow, columns.arrow_fill)
    for build in (pair, PURE_ARROW):
        columns.arrow, columns.arrow_fill = build  # type: ignore[assignment]
        reader = RecordColumns(COLUMNS, body_size_max=BODY_SIZE_MAX)
        own = RecordColumns(["keys", "properties"], without=["KEYS", "WAIT", "UNIQ_KEY"])
        try:
            results.append((reader.read(data, positions), own.read(data, positions)))
        except (CorruptRecord, RemoteProtocolError) as error:
            results.append(str(error))
        finally:
            columns.arrow, columns.arrow_fill = pair
    assert results[0] == results[1]


def property_seeds() -> list[bytes]:
    """Property strings of the vectors."""
    rows = [row for version in VERSIONS for row in vectors(version, "properties")]
    return [row["string"].encode("utf-8", "replace") for row in rows]


def check_properties(data: bytes) -> None:
    """Both builds and the plain reading agree, and what was read can be written and read."""
    properties = decode_properties(data)
    assert COMPILED.decode_properties(data) == PURE.decode_properties(data) == properties
    assert decode_properties(encode_properties(properties)) == properties
    for name in [*properties, "TAGS"]:
        raw = name.encode()
        assert COMPILED.find_property(data, raw) == PURE.find_property(data, raw)
    whole = hashing.java_hash(data or bytes(1), 0, len(data), 0)
    assert hashing.as_int(whole) == PURE_HASHING.java_hash_of(data.decode("utf-8", "replace"))


def batch_seeds() -> list[bytes]:
    """Batches of the vectors."""
    rows = [row for version in VERSIONS for row in vectors(version, "message-codec")]
    return [base64.b64decode(row["encoded"]) for row in rows if row["kind"] == "batch"]


def check_batch(data: bytes) -> None:
    """A batch is refused, or its messages make up all its bytes."""
    try:
        messages = decode_batch(data)
    except RemoteProtocolError:
        return
    assert len(
        encode_batch([m._replace(properties=m.properties[:32767]) for m in messages])
    ) <= len(data)


def body_seeds() -> list[bytes]:
    """One body in every compression, the kind as first byte."""
    bodies = [b"again and again " * 50, b""]
    return [bytes([kind]) + compress(body, kind) for kind in Compression for body in bodies]


def check_body(data: bytes) -> None:
    """A compressed body is restored within its bound, or refused."""
    kind = Compression(1 + data[0] % 3) if data else Compression.ZLIB
    with contextlib.suppress(RemoteProtocolError):
        assert len(decompress(data[1:], kind, BODY_SIZE_MAX)) <= BODY_SIZE_MAX


def sql_seeds() -> list[bytes]:
    """Expressions of the vectors."""
    rows = vectors("5.2.0", "sql92")
    return [row["expr"].encode() for row in rows if row["kind"] == "expr"]


def check_sql(data: bytes) -> None:
    """An expression is refused with its place, or gives an answer for any message."""
    text = data.decode("utf-8", "replace")
    with contextlib.suppress(FilterError):
        parse_tags(text)
    try:
        condition = compile_sql(text)
    except SqlError as error:
        assert 0 <= error.position <= len(text)
        return
    contexts = [row["properties"] for row in vectors("5.2.0", "sql92") if row["kind"] == "context"]
    for properties in contexts:
        assert condition.matches(properties) in (True, False)
    assert condition.text


WORDS = (b"\x01", b"\x02", b"\xda\xa3\x20\xa7", b"\xda\xa3\x20\xab", b"\xcb\xd4\x31\x94", b"\xc3")
SQL_WORDS = tuple(
    f" {word} ".encode()
    for word in (
        *("NOT", "AND", "OR", "BETWEEN", "IN", "IS", "NULL", "TRUE", "CONTAINS", "(", ")", ","),
        *(
            "=",
            "<>",
            ">=",
            "'x'",
            "''",
            "-",
            "+",
            "1.5",
            "007",
            "9999999999",
            "a",
            "/*",
            "*/",
            "--",
        ),
    )
)
TARGETS = [
    ("records", "both builds agree; our errors only", check_records, record_seeds, WORDS),
    ("columns", "both builds agree; our errors only", check_columns, record_seeds, WORDS),
    ("properties", "all readers agree", check_properties, property_seeds, WORDS),
    ("batch", "our errors only", check_batch, batch_seeds, WORDS),
    ("compressed-body", "our errors only, bounded output", check_body, body_seeds, ()),
    ("sql", "SqlError with a place, or an answer", check_sql, sql_seeds, SQL_WORDS),
]
