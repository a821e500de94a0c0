"""Whatever a caller passes to ``Message`` and ``send``: it is stored as it was, or refused."""

from __future__ import annotations

import array
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrailmq import Message
from contrailmq.client.producer.outgoing import Packer
from contrailmq.client.producer.settings import ProducerSettings
from contrailmq.clock import SystemClock
from contrailmq.errors import ClientError, ContrailError
from contrailmq.protocol.batch import decode_batch
from contrailmq.protocol.command import Command
from contrailmq.protocol.compression import compression_of, decompress
from contrailmq.protocol.ids import UniqueIds
from contrailmq.protocol.properties import decode_properties
from contrailmq.protocol.queue import MessageQueue
from contrailmq.protocol.sysflag import COMPRESSED

QUEUE = MessageQueue("T", "b", 0)
odd = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(max_size=8),
    st.lists(st.one_of(st.text(), st.integers()), max_size=3), st.just(object()),
)  # fmt: skip
texts = st.text(st.characters(codec="utf-8"), max_size=12)
views = st.one_of(
    st.binary(min_size=1, max_size=64),
    st.binary(min_size=1, max_size=64).map(bytearray),
    st.binary(min_size=1, max_size=64).map(memoryview),
    st.lists(st.floats(), min_size=1, max_size=8).map(lambda x: memoryview(array.array("d", x))),
    st.binary(min_size=2, max_size=64).map(lambda x: memoryview(x)[::2]),
    st.binary(min_size=1, max_size=64).map(lambda x: memoryview(x)[::-1]),
    st.binary(min_size=12, max_size=12).map(lambda x: memoryview(x).cast("B", (3, 4))),
)


def packer() -> Packer:
    return Packer(
        ProducerSettings(),
        ids=UniqueIds(bytes(4), clock=SystemClock(), pid=1, rng=random.Random(1)),
        clock=SystemClock(),
        namespace="",
    )


@given(views)
def test_a_body_is_its_bytes(view: Any) -> None:
    outgoing = packer().pack(Message("T", view))
    whole = view.tobytes() if isinstance(view, memoryview) else bytes(view)
    assert outgoing.body == whole
    assert type(outgoing.body) is bytes


@given(views)
def test_a_frame_is_as_long_as_it_says(view: Any) -> None:
    command = Command(10, fields={}, body=view)
    frame = command.encode()
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert bytes(command.body) == (view.tobytes() if isinstance(view, memoryview) else bytes(view))


@given(
    tags=st.one_of(texts, odd),
    keys=st.one_of(texts, st.lists(texts, max_size=3), odd),
    properties=st.one_of(st.dictionaries(texts, texts, max_size=3), st.dictionaries(odd.filter(
        lambda x: not isinstance(x, list)), odd, max_size=2)),
    delay_level=st.one_of(st.integers(-2, 20), odd),
    delay_s=st.one_of(st.none(), odd),
    deliver_at_ms=st.one_of(st.none(), odd),
    flag=st.one_of(st.just(0), odd),
)  # fmt: skip
def test_arguments_are_stored_as_they_are_or_refused(**arguments: Any) -> None:
    try:
        message = Message("T", b"body", **arguments)
    except (ClientError, TypeError) as error:
        if isinstance(error, TypeError):  # only for what is no iterable or mapping at all
            assert "iterable" in str(error) or "mapping" in str(error), error
        return
    outgoing = packer().pack(message)
    stored = decode_properties(outgoing.properties.encode())
    own = {"WAIT", "UNIQ_KEY", "KEYS", "TAGS", "DELAY", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"}
    assert {name: text for name, text in stored.items() if name not in own} == message.properties
    assert stored.get("TAGS") == (message.tags or None)
    assert stored.get("KEYS", "").split() == list(message.keys)
    for name in ("DELAY", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"):
        assert stored.get(name, "0").isdecimal()
    assert outgoing.flag == message.flag
    batch = packer().pack_batch([message]) if not message.is_delayed else None
    if batch is not None:
        (inner,) = decode_batch(batch.body)
        again = decode_properties(bytes(inner.properties))
        assert {k: v for k, v in again.items() if k != "UNIQ_KEY"} == {
            k: v for k, v in stored.items() if k != "UNIQ_KEY"
        }


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"tags": ["a"]}, "must be text"),
        ({"tags": "a||b"}, "one tag"),
        ({"keys": ["a b"]}, "spaces"),
        ({"keys": [5]}, "must be text"),
        ({"deliver_at_ms": "1\x02X\x01y"}, "whole number"),
        ({"delay_level": 2.5}, "whole number"),
        ({"delay_level": True}, "whole number"),
        ({"delay_s": float("nan")}, "seconds"),
        ({"delay_s": float("inf")}, "seconds"),
        ({"properties": {1: "x"}}, "must be text"),
        ({"properties": {"x": 1}}, "must be text"),
        ({"body": "text"}, "must be bytes"),
    ],
)
def test_what_is_wrong_is_said_where_the_message_is_made(
    arguments: dict[str, Any], text: str
) -> None:
    with pytest.raises(ClientError, match=text):
        Message("T", **{"body": b"x", **arguments})


def test_keys_given_as_one_text_are_its_words() -> None:
    assert Message("T", b"x", keys="a b").keys == ("a", "b")


def test_a_body_that_does_not_shrink_is_sent_as_it_is() -> None:
    settings = ProducerSettings()
    body = random.Random(1).randbytes(settings.message_size_max)
    outgoing = packer().pack(Message("T", body))
    assert outgoing.body == body
    assert not outgoing.sys_flag & COMPRESSED
    outgoing = packer().pack(Message("T", bytes(100_000)))
    assert decompress(outgoing.body, compression_of(outgoing.sys_flag)) == bytes(100_000)


def test_a_buffer_that_changes_later_changes_nothing() -> None:
    buffer = bytearray(b"before")
    outgoing = packer().pack(Message("T", buffer))
    buffer[:] = b"behind and longer"
    assert outgoing.body == b"before"


def test_refusals_are_errors_of_ours() -> None:
    assert issubclass(ClientError, ContrailError)
