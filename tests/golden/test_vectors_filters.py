"""Tag expressions, SQL92 and the bloom filter against RocketMQ's own answers."""

from __future__ import annotations

import base64
from typing import Any, Literal

import pytest

from contrailmq.errors import FilterError
from contrailmq.protocol.filter.bloom import BloomFilter, has_bits, set_bits
from contrailmq.protocol.filter.sql import SqlError, SqlFilter, compile_sql
from contrailmq.protocol.filter.tags import build_subscription
from contrailmq.protocol.properties import encode_properties
from testkit.golden import VERSIONS, vectors

DIALECTS: dict[str, Literal["4.9", "5.x"]] = {"4.9.7": "4.9", "5.2.0": "5.x"}


def sql_rows() -> list[Any]:
    rows = [(version, row) for version in VERSIONS for row in vectors(version, "sql92")]
    found = [pair for pair in rows if pair[1]["kind"] == "expr"]
    assert len(found) > 2 * 100
    return [pytest.param(v, row, id=f"{v}-{row['expr'][:40]!r}") for v, row in found]


def contexts(version: str) -> list[dict[str, str]]:
    return [row["properties"] for row in vectors(version, "sql92") if row["kind"] == "context"]


@pytest.mark.parametrize(("version", "row"), sql_rows())
def test_sql_expression(version: str, row: dict[str, Any]) -> None:
    if row["compileError"]:
        with pytest.raises(SqlError) as refused:
            compile_sql(row["expr"], dialect=DIALECTS[version])
        assert 0 <= refused.value.position <= len(row["expr"])
        return
    condition = compile_sql(row["expr"], dialect=DIALECTS[version])
    assert condition.text == row["text"]
    for properties, wanted in zip(contexts(version), row["results"], strict=True):
        assert outcome(condition, properties) == wanted.get("value", "error"), properties
        assert condition.matches(properties) is wanted["matched"]
        # An empty value does not survive in a stored record, so it is missing there.
        stored = {name: value for name, value in properties.items() if value}
        raw = encode_properties(stored)
        assert condition.matches_raw(raw) is condition.matches(stored)


def outcome(condition: SqlFilter, properties: dict[str, str]) -> bool | str | None:
    try:
        return condition.evaluate(properties)
    except ValueError:
        return "error"


@pytest.mark.parametrize("version", VERSIONS)
def test_tag_expressions(version: str) -> None:
    for row in vectors(version, "subscription"):
        if "error" in row:
            with pytest.raises(FilterError, match="subString split error"):
                build_subscription(row["topic"], row["expression"])
            continue
        subscription = build_subscription(row["topic"], row["expression"])
        assert subscription.topic == row["topic"]
        assert subscription.sub_string == row["subString"]
        assert sorted(subscription.tags_set) == sorted(row["tagsSet"])
        assert sorted(subscription.code_set) == sorted(row["codeSet"])
        assert subscription.expression_type == row["expressionType"]


@pytest.mark.parametrize("version", VERSIONS)
def test_bloom_filter(version: str) -> None:
    bloom, bits = BloomFilter(), bytearray()
    kinds = set()
    for row in vectors(version, "bloom"):
        kinds.add(row["kind"])
        if row["kind"] == "shape":
            bloom = BloomFilter(error_percent=row["f"], expected=row["n"])
            assert (bloom.hash_count, bloom.bit_count) == (row["k"], row["m"])
            bits = bytearray(bloom.size)
        elif row["kind"] == "positions":
            assert bloom.positions(row["key"]) == row["positions"]
            set_bits(bits, row["positions"])
            assert bits == base64.b64decode(row["bitsAfter"])
        else:
            assert has_bits(bits, bloom.positions(row["key"])) is row["hit"]
    assert kinds == {"shape", "positions", "hit"}
