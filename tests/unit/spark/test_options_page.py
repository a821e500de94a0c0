"""docs/spark.md names every option and column there is, and no other, with its default."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from contrailmq.bulk.options import (
    SINK_NAMES,
    SOURCE_NAMES,
    STORE_NAMES,
    sink_options,
    source_options,
    store_options,
)
from contrailmq.bulk.planning import ROWS_PER_TASK_MAX
from contrailmq.bulk.rows import DAMAGE
from contrailmq.spark.columns import message_schema

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "spark.md").read_text(encoding="utf-8")
WHERE = {"nameServers": "127.0.0.1:9876"}


def _section(title: str) -> str:
    (found,) = re.findall(rf"^## {re.escape(title)}\n(.*?)^## ", PAGE, re.DOTALL | re.MULTILINE)
    return str(found)


def _rows(title: str) -> dict[str, str]:
    """Each option of a section's table with its cell of defaults."""
    found: dict[str, str] = {}
    for line in re.findall(r"^\| (`.*)", _section(title), re.MULTILINE):
        names, default, _ = re.split(r"(?<!\\) \| ", line.replace("| |", "|  |"), maxsplit=2)
        for name in re.findall(r"`(\w+)`", names):
            assert name not in found, name
            found[name] = default.strip()
    return found


TOPICS = _rows('Options of reading topics (`format("rocketmq")`)')
DIRECTORIES = _rows('Options of reading directories (`format("rocketmq-store")`)')
WRITING = _rows("Options of writing")


def test_the_tables_have_every_option_and_no_other() -> None:
    assert sorted(TOPICS) == sorted(SOURCE_NAMES)
    assert sorted(DIRECTORIES) == sorted(STORE_NAMES)
    as_above = {"secretKey", "securityToken"}  # the row says "accessKey …"
    assert sorted({*WRITING, *as_above}) == sorted(SINK_NAMES)


def test_defaults_are_what_the_tables_say() -> None:
    source = source_options({**WHERE, "topics": "t"})
    told = TOPICS["timeoutMs"].split(", ")
    assert told == [str(int(s * 1000)) for s in (source.access.timeout_s, source.access.patience_s)]
    assert TOPICS["failOnDataLoss"] == f"`{str(source.fail_on_data_loss).lower()}`"
    assert TOPICS["pushDown"] == f"`{str(source.push_down).lower()}`"
    assert TOPICS["properties"] == ("`own`" if source.own_properties else "`all`")
    assert TOPICS["maxRecordsPerPartition"] == f"{ROWS_PER_TASK_MAX // 10**6} million"
    store = store_options({"path": "/data/store"})
    assert DIRECTORIES["onDamage"] == ("`fail`" if store.fail_on_damage else "`report`")
    assert DIRECTORIES["checkCrc"] == f"`{str(store.check_crc).lower()}`"
    sink = sink_options(WHERE)
    assert WRITING["delivery"] == ("`effectively-once`" if sink.once else "`at-least-once`")
    assert WRITING["group"] == f"`{sink.group}`"
    assert WRITING["batchSize"] == f"{sink.batch_size}, {sink.batch_count}"
    assert WRITING["inFlight"] == str(sink.in_flight)
    told = f"{sink.compress_over}, `{sink.compression.name.lower()}`"
    assert WRITING["compression"] == told


def test_the_columns_are_those_of_the_page() -> None:
    told = re.findall(r"`(\w+)` (string|int|bigint|binary|timestamp|map)", _section("Columns"))
    schema = message_schema(with_damage=True)
    assert [name for name, _ in told] == schema.fieldNames()
    assert [kind for _, kind in told] == [
        field.dataType.simpleString().partition("<")[0] for field in schema.fields
    ]
    assert told[-1][0] == DAMAGE
