"""SQL92 over raw bytes: the compiled evaluator decides as the Python functions do."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrailmq._native import sql as native
from contrailmq.broker.tables.filters import SqlMatcher
from contrailmq.protocol.filter import sql_program
from contrailmq.protocol.filter.sql import SqlError, SqlFilter, compile_sql
from testkit.builds import BUILDS, native_module

NAMES = ("a", "b", "TAGS", "$x", "long_name_1")
NUMBERS = (
    "0", "1", "7", "-3", "2147483647", "2147483648", "-2147483648", "9223372036854775807", "1.5",
    "-2.25", "1e3", "0.1", "123456789012345678", "99999999999999.5",
)  # fmt: skip
TEXTS = ("", "x", "TagB", "true", "é", "订单", "7", "a''b", "\ufffd", "1.5")
RAW_VALUES = st.one_of(
    st.sampled_from([text.encode() for text in (*NUMBERS, *TEXTS)]),
    st.sampled_from(
        [
            b" 1",
            b"+2",
            b"NaN",
            b"-0.0",
            b"-0",
            b"1e0",
            b"0x1p3",
            b"Infinity",
            b"1.5d",
            b"TRUE",
            b"tRuE",
            b"fals\xe9",
            b"\xc3",
            b"x\xc3\xa9y",
            b"1 ",
            b"\t7\n",
            b"1.",
            b".5",
            b".",
            b"+",
            b"-",
            b"00000000000000000000000007",
            b"1234567890123456789012345",
            b"7\x01=8",
            "\u0661\u0662".encode(),
            b"1.0000000000000000000000001",
            b"12abc",
            b"--1",
            b"1_000",
            b"TagBB",
            b"0.10000000000000001",
            b"123456789.125",
            b"1e400",
            b"-1.5F",
            b"1..2",
            b"abc",
        ]
    ),
    st.binary(max_size=6).map(lambda value: value.replace(b"\x02", b"")),
    st.floats(allow_nan=False).map(lambda number: repr(number).encode()),
    st.integers(-(2**64), 2**64).map(lambda number: str(number).encode()),
)
PROPERTIES = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([name.encode() for name in NAMES]), RAW_VALUES).map(
            lambda pair: pair[0] + b"\x01" + pair[1]
        ),
        st.binary(max_size=8).map(lambda part: part.replace(b"\x02", b"")),
    ),
    max_size=6,
).map(b"\x02".join)

name = st.sampled_from(NAMES)
text = st.sampled_from(TEXTS).map(lambda value: f"'{value}'")
number = st.sampled_from(NUMBERS)
value = st.one_of(name, number, text, st.sampled_from(["TRUE", "FALSE"]), name.map("-{}".format))
LEAVES = st.one_of(
    st.builds("{} {} {}".format, value, st.sampled_from(["=", "<>"]), value),
    st.builds(
        "{} {} {}".format,
        st.one_of(name, number),
        st.sampled_from([">", ">=", "<", "<="]),
        st.one_of(name, number),
    ),
    st.builds("{} {} ({}, {})".format, name, st.sampled_from(["IN", "NOT IN"]), text, text),
    st.builds("{} {}BETWEEN {} AND {}".format, name, st.sampled_from(["", "NOT "]), number, number),
    st.builds(
        "{} {}{} {}".format,
        st.one_of(name, text),
        st.sampled_from(["", "NOT "]),
        st.sampled_from(["CONTAINS", "STARTSWITH", "ENDSWITH"]),
        text,
    ),
    st.builds("{} IS {}NULL".format, name, st.sampled_from(["", "NOT "])),
    st.sampled_from(["TRUE", "FALSE", "NULL", "1 > 2", "1 < 2", *NAMES]),
)
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds("({}) AND ({})".format, inner, inner),
        st.builds("({}) OR ({}) OR ({})".format, inner, inner, inner),
        st.builds("NOT ({})".format, inner),
        st.builds("({}) IS {}NULL".format, inner, st.sampled_from(["", "NOT "])),
        st.builds("({}) = ({})".format, inner, inner),
    ),
    max_leaves=10,
)


@pytest.fixture(params=BUILDS, scope="module")
def build(request: pytest.FixtureRequest) -> Any:
    return native_module("sql", pure=request.param == "pure")


def program_of(condition: SqlFilter, build: Any) -> Any:
    kept = sql_program.SqlProgram
    sql_program.SqlProgram = build.SqlProgram  # type: ignore[misc]
    try:
        return condition.program()
    finally:
        sql_program.SqlProgram = kept  # type: ignore[misc]


def check(condition: SqlFilter, program: Any, properties: bytes) -> int:
    wanted = condition.matches_raw(properties)
    assert program.matches(properties) is wanted, (condition.text, properties)
    outcome: int = program.evaluate(properties)
    if outcome != native.HARD:
        assert (outcome == native.TRUE) is wanted, (condition.text, properties)
    return outcome


@given(EXPRESSIONS, st.lists(PROPERTIES, min_size=1, max_size=8))
def test_a_program_decides_as_the_functions_do(
    build: Any, expression: str, messages: list[bytes]
) -> None:
    try:
        condition = compile_sql(expression)
    except SqlError:
        return
    program = program_of(condition, build)
    for properties in messages:
        check(condition, program, properties)


@pytest.mark.parametrize(
    ("expression", "properties"),
    [
        ("TAGS = 'TagB'", {"TAGS": "TagB"}),
        ("a > 5 AND b = 'x'", {"a": "7", "b": "x"}),
        ("price BETWEEN 10.5 AND 20.5", {"price": "12.5"}),
        ("a IS NOT NULL AND (b = 'x' OR b = 'y') AND NOT (a < 3)", {"a": "7", "b": "y"}),
        ("b IN ('x', 'y') AND c NOT IN ('z')", {"b": "y", "c": "q"}),
        ("missing > 5 OR b CONTAINS 'x'", {"b": "axb"}),
        ("flag = TRUE AND left <= right", {"flag": "True", "left": "1", "right": "1.5"}),
        ("(a = 1) IS NULL AND b STARTSWITH 'x' AND c ENDSWITH 'z'", {"b": "xy", "c": "yz"}),
        ("7 = a AND 5 < a AND a = 7.0", {"a": "7"}),
        ("id = 12345678901", {"id": "12345678901"}),
    ],
)
def test_ordinary_conditions_need_no_python(
    build: Any, expression: str, properties: dict[str, str]
) -> None:
    condition = compile_sql(expression)
    program = program_of(condition, build)
    data = b"".join(f"{key}\x01{value}\x02".encode() for key, value in properties.items())
    assert check(condition, program, data) == native.TRUE
    for key in properties:
        less = b"".join(
            f"{other}\x01{value}\x02".encode()
            for other, value in properties.items()
            if other != key
        )
        assert check(condition, program, less) != native.HARD


def test_an_expression_with_too_many_names_is_hard(build: Any) -> None:
    names = [f"name{number}" for number in range(native.NAMES_MAX + 1)]
    condition = compile_sql(" AND ".join(f"{name} = 'x'" for name in names))
    program = program_of(condition, build)
    data = b"".join(b"%s\x01x\x02" % name.encode() for name in names)
    assert check(condition, program, data) == native.HARD
    assert program.matches(data)


@given(properties=PROPERTIES, cut=st.integers(0, 200), flip=st.integers(0, 119))
def test_a_damaged_record_is_decided_without_a_look_outside(
    properties: bytes, cut: int, flip: int
) -> None:
    """Through a pull: a record whose lengths lie does not match, and nothing else happens."""
    from contrailmq._native.store.gather import Gatherer, Limits

    topic, body = b"Topic", b"hello"
    size = 91 + len(body) + len(topic) + len(properties)
    record = bytearray(
        struct.pack(">IIIIIQQIQQQQIQI", size, 0xDAA320A7, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 5)
        + body
        + bytes([len(topic)])
        + topic
        + struct.pack(">H", len(properties))
        + properties
    )
    assert len(record) == size
    matcher = SqlMatcher(compile_sql("a = 'x' OR b IS NULL"))
    for at in (None, flip % size):
        if at is not None:
            record[at] ^= 1 << (cut % 8)
        gatherer = Gatherer(1 << 20)
        gatherer.add(bytes(record), 0)
        gatherer.end_offset = size
        unit = struct.pack(">qiq", 0, size, 0)
        gatherer.select(unit, 0, 20, 32, Limits(32, 1 << 20), 0, None, matcher.program)
        if at is None:
            assert (gatherer.count == 1) is matcher.matches(record)
