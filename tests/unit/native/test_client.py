"""The client's compiled loops do as its ordinary path does, in both builds."""

from __future__ import annotations

import base64
import json
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.testkit.builds import native_module

from contrailmq.client.message import Message, Receipt, SendStatus
from contrailmq.client.producer import quick_send as quick
from contrailmq.client.producer.outgoing import Outgoing, receipt_of
from contrailmq.client.settings import ProducerSettings
from contrailmq.errors import ClientError
from contrailmq.protocol.batch import BatchMessage, encode_batch
from contrailmq.protocol.command import RESPONSE_FLAG, Command, Serialization, decode
from contrailmq.protocol.properties import RESERVED_PROPERTIES as RESERVED
from contrailmq.protocol.properties import encode_properties
from contrailmq.protocol.queue import MessageQueue

WIRE = Path(__file__).parents[2] / "golden/data/wire"
BUILDS = {name: native_module("client.sends", pure=name == "pure") for name in ("compiled", "pure")}
# Compiled code reads the scanner's C fields; the plain build needs a plain scanner.
BUILDS["pure"].RequestScan = native_module("net.request", pure=True).RequestScan  # type: ignore[attr-defined]
QUEUE = MessageQueue("Topic", 'broker "a" \u00e9', 3)


@pytest.fixture(params=sorted(BUILDS))
def build(request: pytest.FixtureRequest) -> Any:
    return BUILDS[request.param]


@pytest.fixture
def make(build: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(quick, "SendTemplate", build.SendTemplate)
    return template


def template(serialization: Serialization, queue: MessageQueue = QUEUE) -> Any:
    command = request("\u27eai\u27eb", serialization, queue=queue)
    command.fields.update(f="\u27eaf\u27eb", g="\u27eag\u27eb", h="\u27eah\u27eb")
    return quick.template_of(command)


def request(
    text: str,
    serialization: Serialization,
    *,
    queue: MessageQueue = QUEUE,
    body: bytes = b"",
    born_ms: int = 0,
    flag: int = 0,
) -> Command:
    outgoing = Outgoing(queue.topic, body, text, "", flag=flag)
    command = outgoing.command("group", queue, born_ms=born_ms, settings=ProducerSettings())
    command.serialization = serialization
    return command


@given(
    text=st.text(st.characters(exclude_categories=("Cs",)) | st.sampled_from('\x01\x02"\\\x1f\n')),
    body=st.binary(min_size=1, max_size=300),
    opaque=st.integers(0, 0x7FFFFFFF),
    born_ms=st.integers(0, 1 << 50),
    flag=st.integers(0, 0x7FFFFFFF),
)
@pytest.mark.parametrize("serialization", list(Serialization))
@pytest.mark.parametrize("name", sorted(BUILDS))
def test_a_filled_template_is_what_the_encoder_writes(
    name: str, serialization: Serialization, text: str, body: bytes, opaque: int, born_ms: int,
    flag: int,
) -> None:  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quick, "SendTemplate", BUILDS[name].SendTemplate)
        made = template(serialization)
    command = request(text, serialization, body=body, born_ms=born_ms, flag=flag)
    command.opaque = opaque
    assert made.frame(opaque, 0, born_ms, flag, text.encode(), body) == command.encode()


@pytest.mark.parametrize("serialization", list(Serialization))
def test_every_ascii_character_is_escaped_alike(make: Any, serialization: Serialization) -> None:
    text = "".join(map(chr, range(0x80)))
    made = make(serialization).frame(7, 0, 1, 2, text.encode(), b"b")
    command = request(text, serialization, body=b"b", born_ms=1, flag=2)
    command.opaque = 7
    assert made == command.encode()


def test_a_name_with_a_mark_in_it_has_no_template(make: Any) -> None:
    for mark in ("\u27eaf\u27eb", "\u27eai\u27eb"):
        assert make(Serialization.JSON, MessageQueue("Topic", mark, 1)) is None


def test_negative_numbers_and_wrong_pieces_are_refused(build: Any, make: Any) -> None:
    made = make(Serialization.JSON)
    for numbers in ((-1, 0, 0, 0), (0, -1, 0, 0), (0, 0, -1, 0), (0, 0, 0, -1)):
        with pytest.raises(ValueError, match="negative"):
            made.frame(*numbers, b"", b"b")
    with pytest.raises(ValueError, match="pieces"):
        build.SendTemplate([b""] * 4, True)
    with pytest.raises(ValueError, match="fixed part"):
        build.SendTemplate([b""] * 5, True)


class Future:
    """What a loop's future does, without a loop."""

    def __init__(self) -> None:
        self.result: Any = None

    def done(self) -> bool:
        return self.result is not None

    def set_result(self, result: Any) -> None:
        self.result = result


def run(build: Any, frames: list[bytes], queues: dict[int, int]) -> tuple[int, dict[int, Future]]:
    """Let the lane read frames that answer the sends of these opaques to these queues."""
    lane = build.SendAnswers(Receipt, SendStatus.SEND_OK)
    futures = {opaque: Future() for opaque in queues}
    pending: dict[int, Any] = {
        opaque: (
            build.QuickSend(
                futures[opaque], f"id{opaque}", MessageQueue("T", "b", queue_id), "", b""
            ),
        )
        for opaque, queue_id in queues.items()
    }
    connection = types.SimpleNamespace(calls=types.SimpleNamespace(pending=pending))
    data = bytearray(b"".join(frames))
    position = lane.run(data, 0, len(data), connection, [])
    for opaque, future in futures.items():
        assert (opaque in pending) is not future.done()
    return position, futures


def captured_answers() -> Iterator[bytes]:
    for path in sorted(WIRE.glob("*/*.jsonl")):
        if "ha-stream" in path.name:
            continue
        for line in path.read_text().splitlines():
            frame = base64.b64decode(json.loads(line)["frame"])
            command = decode(frame[4:])
            if command.is_response and "queueOffset" in command.fields:
                yield frame


def test_the_captured_answers_of_java_brokers_give_the_same_receipts(build: Any) -> None:
    taken = {Serialization.JSON: 0, Serialization.ROCKETMQ: 0}
    for frame in captured_answers():
        command = decode(frame[4:])
        queue_id = int(command.fields["queueId"])
        position, futures = run(build, [frame], {command.opaque: queue_id})
        if position == 0:
            assert set(command.fields) - {
                "queueId", "queueOffset", "msgId", "transactionId", "MSG_REGION", "TRACE_ON",
            } or command.code != 0 or command.remark  # fmt: skip
            continue
        outgoing = Outgoing("T", b"", "", f"id{command.opaque}")
        expected = receipt_of(command, outgoing, MessageQueue("T", "b", queue_id))
        assert futures[command.opaque].result == expected
        assert type(futures[command.opaque].result) is Receipt
        taken[command.serialization] += 1
    assert min(taken.values()) > 10


def answer(opaque: int, *, code: int = 0, flag: int = RESPONSE_FLAG, **fields: str) -> bytes:
    given = {"queueId": "1", "queueOffset": "5", "msgId": "M", **fields}
    return Command(code, opaque=opaque, flag=flag, fields=given).encode()


def test_a_run_of_answers_ends_at_the_first_that_is_not_plain(build: Any) -> None:
    plain = [answer(1), answer(2, MSG_REGION="Nowhere", TRACE_ON="true")]
    for odd in (
        answer(3, code=10),
        answer(3, flag=0),
        answer(3, queueId="2"),
        answer(3, queueOffset="x"),
        answer(3, recallHandle="r"),
        answer(3, msgId='a"b'),
        answer(9),
        Command(0, opaque=3, flag=RESPONSE_FLAG, fields={"queueId": "1"}).encode(),
        answer(3)[:-1],
    ):
        position, futures = run(build, [*plain, odd, answer(4)], {1: 1, 2: 1, 3: 1, 4: 1})
        assert position == sum(map(len, plain))
        assert futures[1].result == ("id1", "M", ("T", "b", 1), 5, SendStatus.SEND_OK, None,
                                     "DefaultRegion", None)  # fmt: skip
        assert futures[2].result.region == "Nowhere"
        assert not futures[3].done() and not futures[4].done()


def test_the_answer_of_another_call_is_left_alone(build: Any) -> None:
    lane = build.SendAnswers(Receipt, SendStatus.SEND_OK)
    future = Future()
    pending = {1: (future,)}
    connection = types.SimpleNamespace(calls=types.SimpleNamespace(pending=pending))
    data = bytearray(answer(1))
    assert lane.run(data, 0, len(data), connection, []) == 0
    assert pending and not future.done()
    with pytest.raises(ValueError, match="outside"):
        lane.run(data, 0, len(data) + 1, connection, [])


def test_plain_properties_are_those_of_the_message(build: Any) -> None:
    for message in (
        Message("T", b"x"),
        Message("T", b"x", wait_stored=False),
        Message("T", b"x", tags="a", keys=["k1", "k2"]),
        Message("T", b"x", keys="k"),
        Message("T", b"x", keys="k", properties={"a": "b", "c": "d"}, delay_level=18),
    ):
        pairs = message.wire_properties().items()
        text = "".join(f"{k}\x01{v}\x02" for k, v in pairs)
        assert build.property_text(message, RESERVED) == text
    for special in (
        Message("T", b"x", delay_s=0.0),
        Message("T", b"x", deliver_at_ms=1),
    ):
        assert build.property_text(special, RESERVED) is None


@given(
    parts=st.lists(
        st.tuples(st.binary(max_size=50), st.binary(max_size=50), st.integers(-5, 0x7FFFFFFF))
    )
)
@pytest.mark.parametrize("name", sorted(BUILDS))
def test_a_batch_is_what_the_encoder_writes(
    name: str, parts: list[tuple[bytes, bytes, int]]
) -> None:
    expected = encode_batch([BatchMessage(body, text, flag) for body, text, flag in parts])
    columns: list[list[Any]] = [list(column) for column in zip(*parts, strict=True)] or [[], [], []]
    assert BUILDS[name].batch_body(*columns) == expected


def test_a_batch_with_too_many_properties_is_refused(build: Any) -> None:
    with pytest.raises(ValueError, match="32768 bytes"):
        build.batch_body([b"x"], [b"p" * 32768], [0])


def test_a_plain_batch_is_what_its_messages_are_one_by_one(build: Any) -> None:
    messages = [
        Message("T", b"one"),
        Message("T", b"two", tags="t", keys="k", flag=-1, properties={"a": "b"}),
        Message("T", b"three", tags="half \ud800", flag=0x7FFFFFFF),
    ]
    ids = ["A", "B", "C"]
    expected = encode_batch(
        BatchMessage(
            bytes(message.body),
            encode_properties({**message.wire_properties(), "UNIQ_KEY": message_id}),
            message.flag,
        )
        for message, message_id in zip(messages, ids, strict=True)
    )
    assert build.plain_batch(messages, ids, "T", True, "UNIQ_KEY\x01", 5, RESERVED) == expected
    with pytest.raises(ValueError, match="2 ids for 3"):
        build.plain_batch(messages, ids[:2], "T", True, "", 5, RESERVED)


def test_a_batch_that_needs_a_closer_look_is_not_plain(build: Any) -> None:
    for odd in (
        Message("U", b"x"),
        Message("T", b"x", wait_stored=False),
        Message("T", b""),
        Message("T", b"123456"),
        Message("T", bytearray(b"x")),
        changed(flag=1 << 31),
        changed(flag=True),
        changed(properties={"TAGS": "b"}),
        changed(properties={"a": "\x01"}),
        Message("T", b"x", delay_level=2),
    ):
        messages = [Message("T", b"x"), odd]
        assert build.plain_batch(messages, ["A", "B"], "T", True, "", 5, RESERVED) is None


def changed(**wrong: Any) -> Message:
    """A message whose fields were set after its construction, which refuses wrong ones."""
    message = Message("T", b"x")
    for field, value in wrong.items():
        setattr(message, field, value)
    return message


WORDS = st.text(st.characters(codec="utf-8") | st.sampled_from("\x01\x02 "), max_size=6)


@given(
    tags=st.none() | WORDS,
    keys=st.lists(WORDS, max_size=3),
    properties=st.dictionaries(
        WORDS | st.sampled_from(sorted(RESERVED)), WORDS | st.just(7), max_size=3
    ),
    delay=st.sampled_from([0, 1, 18, 19, -1, True, 2.0]),
    wait=st.booleans(),
    delay_s=st.sampled_from([None, None, 1.5]),
)
@pytest.mark.parametrize("name", sorted(BUILDS))
def test_properties_are_the_ordinary_paths_or_left_to_it(
    name: str, tags: str | None, keys: list[str], properties: dict[str, Any], delay: Any,
    wait: bool, delay_s: float | None,
) -> None:  # fmt: skip
    """What can be stored is written alike; what cannot is left to whoever says why."""
    fields = {
        "tags": tags, "keys": tuple(keys), "properties": properties, "delay_level": delay,
        "wait_stored": wait, "delay_s": delay_s,
    }  # fmt: skip
    message = changed(**fields)
    text = BUILDS[name].property_text(message, RESERVED)
    try:
        expected = encode_properties(message.wire_properties())
    except ClientError:
        assert text is None
        with pytest.raises(ClientError):  # construction refuses the same
            Message("T", b"x", **fields)
        return
    if text is None:
        is_odd = not all(key.isprintable() for key in keys)  # may be white space
        assert is_odd or delay_s is not None or type(delay) is not int
    else:
        assert text.encode() == expected
