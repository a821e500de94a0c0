"""Commands go there and back in both header forms; broken ones have one outcome."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from contrailmq.errors import RemoteProtocolError
from contrailmq.protocol.codes import Language
from contrailmq.protocol.command import Command, Serialization, decode
from contrailmq.protocol.frame import LENGTH_SIZE

int32 = st.integers(-(1 << 31), (1 << 31) - 1)
int16 = st.integers(-(1 << 15), (1 << 15) - 1)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
nonempty = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@st.composite
def commands(draw: st.DrawFn) -> Command:
    """Any command that both of its ends understand alike."""
    serialization = draw(st.sampled_from(Serialization))
    is_json = serialization is Serialization.JSON
    words = text if is_json else nonempty
    return Command(
        draw(int32 if is_json else int16),
        fields=draw(st.dictionaries(words, words, max_size=6)),
        body=draw(st.binary(max_size=40)),
        opaque=draw(int32),
        flag=draw(int32),
        remark=draw(st.none() | words),
        language=draw(st.sampled_from([member.name for member in Language])),
        version=draw(int32 if is_json else int16),
        serialization=serialization,
    )


@given(commands())
def test_round_trip(command: Command) -> None:
    frame = command.encode()
    assert int.from_bytes(frame[:4], "big") == len(frame) - LENGTH_SIZE
    assert decode(frame[LENGTH_SIZE:]) == command
    viewed = decode(memoryview(frame)[LENGTH_SIZE:], copy_body=False)
    assert viewed == command
    assert decode(bytearray(frame[LENGTH_SIZE:])) == command
    assert command.encode_head() + bytes(command.body) == frame


@given(commands())
def test_truncation_at_every_length(command: Command) -> None:
    frame = command.encode()[LENGTH_SIZE:]
    body_size = len(command.body)
    for end in range(len(frame)):
        try:
            found = decode(frame[:end])
        except RemoteProtocolError:
            assert end < len(frame) - body_size
        else:
            assert end >= len(frame) - body_size
            assert bytes(found.body) == bytes(command.body)[: end - (len(frame) - body_size)]


@given(st.binary(max_size=80))
def test_garbage_gives_only_the_protocols_error(frame: bytes) -> None:
    try:
        command = decode(frame)
    except RemoteProtocolError:
        return
    # Whatever was accepted can be sent on.
    again = decode(command.encode()[LENGTH_SIZE:])
    assert (again.code, again.opaque, again.flag) == (command.code, command.opaque, command.flag)


@given(st.binary(max_size=60), st.sampled_from([0, 1]))
def test_garbage_headers_give_only_the_protocols_error(header: bytes, kind: int) -> None:
    word = (kind << 24) | len(header)
    with contextlib.suppress(RemoteProtocolError):
        decode(word.to_bytes(4, "big") + header + b"body")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 40), 1 << 40) | st.floats() | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from(
            ["code", "extFields", "flag", "language", "opaque", "remark", "version", "other"]
        ),
        json_values,
    ),
    st.dictionaries(nonempty, json_values, max_size=4),
)
def test_headers_of_any_shape(header: dict[str, Any], ext: dict[str, Any]) -> None:
    """A header that is JSON is either a command or refused; ext values become text."""
    if "extFields" not in header:
        header["extFields"] = ext
    raw = json.dumps(header).encode()
    try:
        command = decode(len(raw).to_bytes(4, "big") + raw)
    except RemoteProtocolError:
        return
    assert all(isinstance(v, str) for pair in command.fields.items() for v in pair)
    if isinstance(header["extFields"], dict):
        present = {name for name, value in header["extFields"].items() if value is not None}
        assert set(command.fields) == present
