"""Every message of the recorded gRPC calls: what it says, and that it is written as it was read."""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from contrailmq.errors import RemoteProtocolError
from contrailmq.grpc import messages, messages_settings
from contrailmq.grpc.converting import parse_receipt
from contrailmq.grpc.messages import Message, Moment
from contrailmq.grpc.protobuf import codec_of
from testkit.golden import GOLDEN

RENAMED = {
    "EndTransactionResponse": "StatusResponse",
    "ForwardMessageToDeadLetterQueueRequest": "ForwardRequest",
    "ForwardMessageToDeadLetterQueueResponse": "StatusResponse",
    "HeartbeatResponse": "StatusResponse",
    "NotifyClientTerminationRequest": "TerminationRequest",
    "NotifyClientTerminationResponse": "StatusResponse",
}
NO_MESSAGE = ("QueryOffsetRequest",)


def recorded() -> Iterator[tuple[str, type[Message], bytes, dict[str, Any]]]:
    for path in sorted((GOLDEN / "grpc").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            for message in json.loads(line)["messages"]:
                name = RENAMED.get(message["type"], message["type"])
                if name in NO_MESSAGE:
                    continue
                kind = getattr(messages, name, None) or getattr(messages_settings, name)
                yield path.stem, kind, base64.b64decode(message["data"]), message["json"]


def test_there_is_something_to_compare() -> None:
    assert len(list(recorded())) > 400


def test_every_recorded_message_is_written_as_it_was_read() -> None:
    for source, kind, data, _ in recorded():
        message = codec_of(kind).decode(data)
        again = codec_of(kind).encode(message)
        assert len(again) == len(data)
        assert codec_of(kind).decode(again) == message
        if source != "go":  # its settings have their fields in another order
            assert again == data, (source, kind, message)


def test_every_recorded_message_says_what_it_said() -> None:
    for _, kind, data, said in recorded():
        agree(codec_of(kind).decode(data), said)


def agree(message: Message, said: dict[str, Any]) -> None:
    """Compare a message with its proto3 JSON; absent fields are zero."""
    for name in message.__struct_fields__:
        value, told = getattr(message, name), said.get(name)
        if isinstance(value, Moment):
            assert told is not None, name
            assert value.ms == (_duration_ms(told) if told.endswith("s") else _time_ms(told))
        elif isinstance(value, msgspec.Struct):
            assert isinstance(value, Message)
            agree(value, told if told is not None else {})
        elif isinstance(value, list) and value and isinstance(value[0], Message):
            assert told is not None
            assert len(told) == len(value)
            for item, item_told in zip(value, told, strict=True):
                if isinstance(item, Moment):
                    assert item.ms == _duration_ms(item_told)
                else:
                    agree(item, item_told)
        elif isinstance(value, bytes):
            assert value == base64.b64decode(told or "")
        elif told is None:
            assert not value, name
        elif isinstance(value, int) and isinstance(told, str):
            assert not told.isdecimal() or value == int(told)
        elif not (isinstance(told, list) and value and isinstance(value[0], int)):
            assert value == told, name
    assert set(said) <= set(message.__struct_fields__)


def _duration_ms(text: str) -> int:
    return round(float(text.removesuffix("s")) * 1000)


def _time_ms(text: str) -> int:
    moment = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return round(moment.timestamp() * 1_000_000) // 1000


def test_recorded_handles_are_read_also_those_of_changes_with_ten_parts() -> None:
    found = set()
    for _, kind, data, _ in recorded():
        message = codec_of(kind).decode(data)
        text = getattr(message, "receipt_handle", None)
        if text and text != "nonsense":
            receipt = parse_receipt(text)
            assert receipt.log_offset == int(text.split(" ")[-1])
            assert receipt.handle.broker_name == "broker-a"
            found.add(len(text.split(" ")))
    assert found == {9, 10}


def test_a_message_cut_short_is_refused_or_is_a_shorter_message() -> None:
    seen = set()
    for _, kind, data, _ in recorded():
        if (kind, len(data)) in seen or len(data) > 600:
            continue
        seen.add((kind, len(data)))
        for size in range(len(data)):
            try:
                codec_of(kind).decode(data[:size])
            except RemoteProtocolError:
                continue


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a\x05ab",  # a length beyond the end
        b"\x0a",  # no length
        b"\x80",  # a tag without an end
        b"\x0a" + b"\xff" * 11,  # a length of more than ten bytes
        b"\x0b",  # a group
        b"\x12\x02\xff\xfe",  # no UTF-8
        b"\x09\x00",  # a fixed number without an end
    ],
)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        codec_of(messages.Status if data[0] == 0x80 else messages.Resource).decode(data)


def test_a_list_has_a_bound() -> None:
    with pytest.raises(RemoteProtocolError, match="at most"):
        codec_of(messages.SendMessageRequest).decode(b"\x0a\x00" * 10_001)


def test_unknown_fields_are_skipped() -> None:
    data = b"\x08\xa0\x9c\x01" + b"\x9a\x06\x03abc" + b"\x98\x06\x05" + b"\x95\x06\0\0\0\0"
    assert codec_of(messages.Status).decode(data) == messages.Status(20000, "")
