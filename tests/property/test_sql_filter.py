"""SQL92: compiled conditions against a plain reading of the rules; garbage gives SqlError only."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrailmq.errors import FilterError
from contrailmq.protocol.filter.sql import EXPRESSION_LENGTH_MAX, SqlError, compile_sql
from contrailmq.protocol.filter.sql_numbers import compare_doubles, parse_double, parse_int
from contrailmq.protocol.filter.sql_parser import DEPTH_MAX, VALUES_MAX
from contrailmq.protocol.properties import encode_properties

Properties = dict[str, str]
Condition = tuple[str, Callable[[Properties], bool | None]]

NAMES = ["a", "b", "s"]
VALUES = st.one_of(
    st.integers(-5, 5).map(str),
    st.sampled_from(["x", "1.5", "true", "2147483648", " 1", "+2", "NaN", "-0.0", "0", "1e0"]),
)
PROPERTIES = st.dictionaries(st.sampled_from(NAMES), VALUES)


class Fails(Exception):
    """The reading of a message that cannot be compared."""


# A condition is (text, reading): the text goes to the compiler, the reading is called.
def comparison(name: str, symbol: str, number: int) -> Condition:
    def reading(properties: Properties) -> bool | None:
        text = properties.get(name)
        if text is None:
            return None
        body = text[1:] if text[:1] in ("+", "-") else text
        if not body.isdigit() or not -(2**31) <= int(text) < 2**31:
            raise Fails
        value = int(text)
        return {
            "=": value == number,
            "<>": value != number,
            ">": value > number,
            ">=": value >= number,
            "<": value < number,
            "<=": value <= number,
        }[symbol]

    return f"{name} {symbol} {number}", reading


def equality(name: str, wanted: str) -> Condition:
    def reading(properties: Properties) -> bool | None:
        return properties[name] == wanted if name in properties else None

    return f"{name} = '{wanted}'", reading


def null(name: str, negated: bool) -> Condition:
    return (
        f"{name} IS {'NOT ' * negated}NULL",
        lambda properties: (name in properties) is negated,
    )


def inside(name: str, wanted: list[str], negated: bool) -> Condition:
    def reading(properties: Properties) -> bool | None:
        return (properties[name] in wanted) is not negated if name in properties else None

    inner = ", ".join(f"'{value}'" for value in wanted)
    return f"{name} {'NOT ' * negated}IN ({inner})", reading


def conjunction(left: Condition, right: Condition) -> Condition:
    def reading(properties: Properties) -> bool | None:
        first = left[1](properties)
        if first is False:
            return False
        second = right[1](properties)
        if second is False:
            return False
        return None if first is None or second is None else True

    return f"({left[0]}) AND ({right[0]})", reading


def disjunction(left: Condition, right: Condition) -> Condition:
    def reading(properties: Properties) -> bool | None:
        first = left[1](properties)
        if first is True:
            return True
        second = right[1](properties)
        if second is True:
            return True
        return None if first is None or second is None else False

    return f"({left[0]}) or ({right[0]})", reading


def opposite(inner: Condition) -> Condition:
    def reading(properties: Properties) -> bool | None:
        value = inner[1](properties)
        return None if value is None else not value

    return f"NOT ({inner[0]})", reading


SIMPLE = st.one_of(
    st.builds(
        comparison,
        st.sampled_from(NAMES),
        st.sampled_from(["=", "<>", ">", ">=", "<", "<="]),
        st.integers(-5, 5),
    ),
    st.builds(equality, st.sampled_from(NAMES), st.sampled_from(["x", "1", "true", ""])),
    st.builds(null, st.sampled_from(NAMES), st.booleans()),
    st.builds(
        inside,
        st.sampled_from(NAMES),
        st.lists(st.sampled_from(["x", "1", "true"]), min_size=1),
        st.booleans(),
    ),
)
CONDITIONS = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        st.builds(conjunction, inner, inner),
        st.builds(disjunction, inner, inner),
        st.builds(opposite, inner),
    ),
    max_leaves=12,
)


@given(CONDITIONS, PROPERTIES)
def test_a_condition_is_what_its_parts_say(condition: Condition, properties: Properties) -> None:
    text, reading = condition
    compiled = compile_sql(text)
    try:
        wanted = reading(properties)
    except Fails:
        with pytest.raises(ValueError, match="integer"):
            compiled.evaluate(properties)
        assert not compiled.matches(properties)
        return
    assert compiled.evaluate(properties) is wanted
    assert compiled.matches(properties) is (wanted is True)
    assert compiled.matches_raw(encode_properties(properties)) is (wanted is True)
    # The normal form says what the text says, but in RocketMQ's own symbols.
    assert compile_sql(text, dialect="4.9").text == compiled.text


TEXT = """
a b1 $x 1 2L 0.5 .5 5. 1e3 007 'x' 'it''s' ' ( ) , + - = <> < <= > >= NOT AND OR BETWEEN IN IS NULL
TRUE FALSE CONTAINS STARTSWITH ENDSWITH -- /* */ " . \u540d 9223372036854775808
"""
WORDS = st.sampled_from([*TEXT.split(), "\n"])


@given(st.one_of(st.lists(WORDS, max_size=20).map(" ".join), st.text(max_size=60)), PROPERTIES)
def test_any_text_compiles_or_is_refused(text: str, properties: dict[str, str]) -> None:
    try:
        compiled = compile_sql(text)
    except SqlError as error:
        assert 0 <= error.position <= len(text)
        assert f"column {error.position - text.rfind(chr(10), 0, error.position)}" in str(error)
        return
    assert compiled.matches(properties) in (True, False)
    assert set(compiled.names) <= set(text.replace("'", " ").split()) | set(compiled.names)


@given(st.text(st.sampled_from("+-0123456789.eENaInfity xXpPdDfF_\t\u0661"), max_size=8))
def test_numbers_are_read_by_the_rules_of_java(text: str) -> None:
    # Where both readings are given, they agree with Python's; a blank or "_" is never a digit.
    try:
        value = parse_int(text, 2**31 - 1)
    except ValueError:
        pass
    else:
        assert value == int(text)
        assert not set(text) & set("_ \t")
        assert text.isascii() is False or parse_double(text) == value
    try:
        double = parse_double(text)
    except ValueError:
        return
    assert "_" not in text
    assert math.isnan(double) or compare_doubles(double, double) == 0


@given(st.floats(), st.floats())
def test_doubles_are_in_total_order(left: float, right: float) -> None:
    assert compare_doubles(left, right) == -compare_doubles(right, left)
    if not math.isnan(left) and not math.isnan(right) and left != right:
        assert compare_doubles(left, right) == (1 if left > right else -1)


def test_bounds_on_length_and_depth() -> None:
    deep = DEPTH_MAX - 1
    assert compile_sql("(" * deep + "a = 1" + ")" * deep).matches({"a": "1"})
    assert compile_sql("NOT " * deep + "TRUE").matches({}) is (deep % 2 == 0)
    for text in (
        "(" * 500 + "a = 1" + ")" * 500,
        "NOT " * 500 + "TRUE",
        "a = " + "- " * 500 + "1",
        "a" + " = 1" * 500,
        "a" + " IS NULL" * 500,
    ):
        with pytest.raises(SqlError, match=f"nested deeper than {DEPTH_MAX}"):
            compile_sql(text)
    with pytest.raises(SqlError, match=f"at most {EXPRESSION_LENGTH_MAX}"):
        compile_sql("a = 1" + " " * EXPRESSION_LENGTH_MAX)


def test_a_long_chain_is_not_deep() -> None:
    chain = " OR ".join(f"a = {number}" for number in range(VALUES_MAX // 2))
    compiled = compile_sql(chain)
    assert compiled.matches({"a": "999"})
    assert not compiled.matches({"a": "1000"})
    assert compiled.text.count("==") == 1000
    with pytest.raises(SqlError, match=f"more than {VALUES_MAX} values and names"):
        compile_sql(chain + " OR b = 1")
    listed = ",".join(f"'{number}'" for number in range(3000))
    assert compile_sql(f"a IN ({listed})").matches({"a": "2999"})


def test_an_error_is_a_filter_error_that_shows_its_place() -> None:
    with pytest.raises(FilterError, match="line 2, column 5") as refused:
        compile_sql("a = 1 AND\nb = = 2")
    assert refused.value.position == 14
