"""The dialect goes there and back, agrees with standard JSON, and survives garbage."""

from __future__ import annotations

import contextlib
import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from contrailmq.errors import RemoteProtocolError
from contrailmq.protocol.bodies import clients, group, heartbeat, queues, route, stats, topic
from contrailmq.protocol.bodies.body import Body
from contrailmq.protocol.fastjson import dumps, java_double, loads
from contrailmq.protocol.json_reader import read
from contrailmq.protocol.queue import MessageQueue

BODIES: list[type[Body]] = [
    heartbeat.HeartbeatData,
    topic.RegisterBrokerBody,
    topic.TopicConfigWrapper,
    group.SubscriptionGroupWrapper,
    route.TopicRouteData,
    queues.LockBatchRequest,
    queues.ResetOffsetBody,
    queues.ConsumerOffsets,
    queues.BatchAckMessageRequest,
    stats.ConsumeStatsList,
    clients.ConsumerRunningInfo,
]

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
queue = st.builds(MessageQueue, text, text, st.integers(-(1 << 31), (1 << 31) - 1))
scalars = st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.floats(allow_nan=False) | text
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(text | st.integers(-(1 << 63), (1 << 63) - 1) | queue, inner, max_size=4)
    ),
    max_leaves=20,
)


def without_references(value: Any) -> bool:
    """Whether a value has no key that means something else."""
    if isinstance(value, dict):
        return "$ref" not in value and all(map(without_references, value.values()))
    return not isinstance(value, list) or all(map(without_references, value))


def finite(value: Any) -> Any:
    """Infinities are written as null, which a map leaves out."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items() if not is_infinite(v)}
    if isinstance(value, list):
        return [None if is_infinite(v) else finite(v) for v in value]
    return None if is_infinite(value) else value


def is_infinite(value: Any) -> bool:
    """Whether JSON has no number for it."""
    return isinstance(value, float) and math.isinf(value)


@given(values.filter(without_references), st.booleans())
@example({1: {MessageQueue("t", "b", 0): [1.5, None, "x"]}}, True)
def test_round_trip(value: Any, pretty: bool) -> None:
    written = dumps(value, pretty=pretty)
    found = loads(written)
    # An infinity in a map is written as null and read as None.
    assert drop_none(found) == drop_none(finite(value))


def drop_none(value: Any) -> Any:
    """Maps without nulls."""
    if isinstance(value, dict):
        return {k: drop_none(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [drop_none(v) for v in value]
    return value


json_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
json_values = st.recursive(
    st.none() | scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(json_text, inner, max_size=4),
    max_leaves=20,
)


@given(json_values.filter(without_references))
def test_standard_json_reads_the_same_by_both_parsers(value: Any) -> None:
    value = finite(value)
    written = json.dumps(value)
    assert read(written) == json.loads(written) == loads(written)
    assert json.loads(dumps(value, quote_int_keys=True, ascii_only=True)) == drop_none(value)


@given(values.filter(without_references))
def test_truncation_at_every_length(value: Any) -> None:
    written = dumps([value])
    for end in range(len(written)):
        with pytest.raises(RemoteProtocolError):
            loads(written[:end])


PUNCTUATION = [*"{}[]:,\"'\\/*0-+.eE \n", "//", "/*", "*/"]
WORDS = ["true", "null", "NaN", "1L", "a", "é", "\\u12", '"$ref"', '"$"', '"$.a[0]"']
HALF_A_PAIR = chr(0xD83D)
A_QUEUE = '{"brokerName":"b","queueId":1,"topic":"t"}'
pieces = st.lists(st.sampled_from([*PUNCTUATION, *WORDS, HALF_A_PAIR, A_QUEUE]), max_size=30)


@given(pieces.map("".join))
@example('{"a":{"$ref":"$"}}')
@example('{"a":{"$ref":".."},"b":[{"$ref":"@"}]}')
@example("[" * 100_000)
@example('{"a":' * 3000 + "1" + "}" * 3000)
def test_garbage_gives_only_the_protocols_error(garbage: str) -> None:
    for data in (garbage, garbage.encode("utf-8", "replace")):
        with contextlib.suppress(RemoteProtocolError):
            loads(data)
    for kind in BODIES:
        with contextlib.suppress(RemoteProtocolError):
            kind.decode(garbage.encode("utf-8", "replace"))


def names_in(kind: type[Body]) -> list[str]:
    """The wire names of a body, to make garbage that is nearly one."""
    return list(kind.__struct_encode_fields__)


@given(st.sampled_from(BODIES), st.data())
def test_a_body_of_any_shape_is_read_or_refused(kind: type[Body], data: st.DataObject) -> None:
    shape = st.dictionaries(st.sampled_from(names_in(kind)), json_values, max_size=6)
    written = dumps(data.draw(shape))
    try:
        found = kind.decode(written)
    except RemoteProtocolError:
        return
    assert kind.decode(found.encode()) == found


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_java_double_is_exact(value: float) -> None:
    written = java_double(value)
    assert float(written) == value
    mantissa, _, exponent = written.partition("E")
    assert "." in mantissa
    assert bool(exponent) == (value != 0 and not 1e-3 <= abs(value) < 1e7)
