"""The dialect, form by form."""

from __future__ import annotations

import enum
from typing import Any

import pytest

from contrailmq.errors import LocalProtocolError, RemoteProtocolError
from contrailmq.protocol.fastjson import SIZE_MAX, dumps, loads
from contrailmq.protocol.json_reader import DEPTH_MAX, REFERENCES_MAX, ObjectKey, read
from contrailmq.protocol.queue import MessageQueue

QUEUE = MessageQueue("t", "b", 1)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("{0:1,-5:2}", {0: 1, -5: 2}),
        ('{"0":1}', {"0": 1}),
        ("{name:1,$x:2,a_b1:3}", {"name": 1, "$x": 2, "a_b1": 3}),
        ("{true:1,null:2}", {"true": 1, "null": 2}),
        ("{1.5:1}", {"1.5": 1}),
        ("{'a':'it''s'}", None),
        ("{'a':'it\\'s \"x\"'}", {"a": 'it\'s "x"'}),
        ('{"a":1,}', {"a": 1}),
        ("[1,,2,]", [1, 2]),
        ("/* c */ [1, // x\n 2 /* y */]", [1, 2]),
        ("[1L,2B,3S,4.5F,6D]", [1, 2, 3, 4.5, 6.0]),
        ("[+1,-2,1e3,2.]", [1, -2, 1000.0, 2.0]),
        ("[NaN,undefined,null]", [None, None, None]),
        (r"['\x41\u00e9\ud83d\ude00\v\0\/']", ["Aé😀\v\0/"]),
        (r'{"a":"\ud83d"}', {"a": "\ufffd"}),
        ('{{"brokerName":"b","queueId":1,"topic":"t"}:5}', {QUEUE: 5}),
        ('{{topic:"t",queueId:"1",brokerName:"b"}:5}', {QUEUE: 5}),
        ('{{"x":1,"y":[2,{"z":3}]}:5}', None),
        ("{[1,2]:3}", {(1, 2): 3}),
        ("\ufeff{}", {}),
        ('{"a":1}\n', {"a": 1}),
    ],
)
def test_forms_beyond_standard_json(written: str, value: Any) -> None:
    if value is not None:
        assert loads(written) == value
        assert loads(written.encode()) == value
        assert read(written) == value


def test_an_object_that_is_no_queue_is_an_object_key() -> None:
    (key,) = loads('{{"x":1,"y":[2,{"z":3}]}:5}')
    assert key == ObjectKey((("x", 1), ("y", (2, ObjectKey((("z", 3),))))))
    assert loads(dumps({key: 5})) == {key: 5}


@pytest.mark.parametrize(
    "written",
    [
        *("", "{", "[", "{a}", "{a:}", "{:1}", "[1 2]", "{a:1 b:2}", "[1]]", "[1] 2", '"abc', "'"),
        *(r'"\q"', "[word]", "/* open", "[1.2.3]", "[0x10]", "[1a]", "{a:1}{", "nul", "-", "[--1]"),
        "[" + "1" * 500 + "x]",
        "[" * (DEPTH_MAX + 1) + "]" * (DEPTH_MAX + 1) + ",",
        "{a:" * (DEPTH_MAX + 1) + "1" + "}" * (DEPTH_MAX + 1),
    ],
)
def test_what_is_refused(written: str) -> None:
    with pytest.raises(RemoteProtocolError):
        loads(written)


def test_deep_standard_json_is_refused_too() -> None:
    depth = 100_000  # the interpreter's own bound differs by version, from 1,000 to 10,000
    with pytest.raises(RemoteProtocolError, match="deep"):
        loads("[" * depth + "]" * depth)


def test_size_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contrailmq.protocol.fastjson.SIZE_MAX", 10)
    with pytest.raises(RemoteProtocolError, match="at most 10"):
        loads("[" + " " * 20 + "]")
    assert SIZE_MAX > 16 * 1024 * 1024


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ('{"a":{"x":1},"b":{"$ref":"$.a"}}', {"a": {"x": 1}, "b": {"x": 1}}),
        ('{"a":[{"x":1},{"$ref":"$.a[0]"}]}', {"a": [{"x": 1}, {"x": 1}]}),
        ('{"a":{"x":1},"b":[{"$ref":"$.a"}],c:2}', {"a": {"x": 1}, "b": [{"x": 1}], "c": 2}),
        (
            r'{"m":{"broker-a":{"x":1}},"b":{"$ref":"$.m.broker\\-a"}}',
            {"m": {"broker-a": {"x": 1}}, "b": {"x": 1}},
        ),
        ('{"m":{0:{"x":1}},"b":{"$ref":"$.m.0"}}', {"m": {0: {"x": 1}}, "b": {"x": 1}}),
        ('{"m":{"k":{"x":1}},"b":{"$ref":"$[\'m\'].k"}}', {"m": {"k": {"x": 1}}, "b": {"x": 1}}),
        ('{"a":{"$ref":"$.nowhere"}}', {"a": None}),
        ("12 // $ref", 12),
        ("'$ref'", "$ref"),
        ('{"a":[1],"b":{"$ref":"$.a[7]"}}', {"a": [1], "b": None}),
        ('{"a":{"$ref":"?"}}', {"a": None}),
        ('{"a":{"$ref":"$.b"},"b":{"$ref":"$.a"}}', {"a": None, "b": None}),
        ('{"$ref":"$"}', None),
        ('{"a":{"$ref":5}}', {"a": {"$ref": 5}}),
    ],
)
def test_references(written: str, value: Any) -> None:
    assert loads(written) == value
    assert read(written) == value


def test_references_are_the_object_itself() -> None:
    found = loads('{"a":{"x":1},"b":{"$ref":"$.a"},"c":{"me":{"$ref":"@"},"up":{"$ref":".."}}}')
    assert found["b"] is found["a"]
    assert found["c"]["me"] is found["c"]
    assert found["c"]["up"] is found
    with pytest.raises(LocalProtocolError, match="circle"):
        dumps(found)


def test_references_are_bounded() -> None:
    with pytest.raises(RemoteProtocolError, match="references"):
        loads("[" + '{"$ref":"$"},' * (REFERENCES_MAX + 1) + "1]")


class Mode(enum.IntEnum):
    """Any number with a name."""

    ONE = 1


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({"b": 1, "a": None, "c": [None, True]}, '{"b":1,"c":[null,true]}'),
        ({QUEUE: 1}, '{{"brokerName":"b","queueId":1,"topic":"t"}:1}'),
        ({1: "x", "y": {2: 3}}, '{1:"x","y":{2:3}}'),
        (b"\x01\x02", '"AQI="'),
        ([1.0, 1e7, 0.1, 1e-4, float("nan"), float("inf")], "[1.0,1.0E7,0.1,1.0E-4,null,null]"),
        (
            'a"\\\b\f\n\r\t\x01\x7f\x9f\u2028/é',
            '"a\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u007F\\u009F\\u2028/é"',
        ),
        ({3, 1, 2}, "[1,2,3]"),
        ((1, "x"), '[1,"x"]'),
        (Mode.ONE, "1"),
        ("\ud800", '"?"'),
    ],
)
def test_writing(value: Any, written: str) -> None:
    assert dumps(value).decode() == written


def test_writing_standard_json() -> None:
    value = {1: "é😀", "k": {2: QUEUE}}
    assert dumps(value, quote_int_keys=True, ascii_only=True).decode() == (
        '{"1":"\\u00E9\\uD83D\\uDE00","k":{"2":{"brokerName":"b","queueId":1,"topic":"t"}}}'
    )


def test_what_has_no_json_form() -> None:
    with pytest.raises(LocalProtocolError, match="complex has no JSON form"):
        dumps([1j])
    deep: list[Any] = []
    deep.append(deep)
    with pytest.raises(LocalProtocolError, match="deep"):
        dumps(deep)


def test_a_queue_says_what_java_says() -> None:
    assert str(QUEUE) == "MessageQueue [topic=t, brokerName=b, queueId=1]"
    assert sorted(
        [MessageQueue("b", "a", 0), MessageQueue("a", "b", 1), MessageQueue("a", "b", 0)]
    ) == [
        MessageQueue("a", "b", 0),
        MessageQueue("a", "b", 1),
        MessageQueue("b", "a", 0),
    ]
