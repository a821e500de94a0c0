"""The gate before the lanes: it lets in what is signed right, and nothing else."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from contrailmq._native.lanes.gate import Allowance, Gate, LaneAccount, Visitor
from contrailmq._native.lanes.send import SendLane
from contrailmq._native.store.log import LogWriter, Origin
from contrailmq.protocol.acl import SIGNATURE, signed
from contrailmq.protocol.command import Command, Serialization
from testkit.lanes import FIELDS, HOST, TIME_MS, OneTopic, lane_inputs

SECRET = "appSecret"
TEXT = "UNIQ_KEY\x017F0001\x02TAGS\x01Täg\U0001f600\x02"


def frame(secret: str = SECRET, *, body: bytes = b"hello", **changes: Any) -> bytearray:
    binary = changes.pop("binary", False)
    after = changes.pop("after", {})
    fields = signed(
        {**FIELDS, "i": TEXT, **changes}, body, access_key="appAccount", secret_key=secret
    )
    command = Command(310, fields={**fields, **after}, body=body, opaque=3)
    command.fields = {n: v for n, v in command.fields.items() if v != "absent"}
    if binary:
        command.serialization = Serialization.ROCKETMQ
    return bytearray(command.encode())


class World:
    """A send lane with a gate, on which one account was let in."""

    def __init__(self, *secrets: str, **more: Any) -> None:
        self.asked: list[bytes] = []
        self.allowed = True
        log = LogWriter(1 << 20, 1 << 19)
        self.segment = bytearray(1 << 20)
        log.attach(self.segment, 4096, 0)
        log.store_ms = TIME_MS
        self.log = log
        self.gate = Gate(self, False)
        self.lane = SendLane(OneTopic(), lane_inputs(log, self.gate))
        self.lane.steer(True, False)
        self.peer = SimpleNamespace(
            lane_state=None, visitor=Visitor(0, None), peer_host=HOST, answer=None
        )
        name = more.pop("name", b"appAccount")
        keys = tuple(secret.encode() for secret in secrets)
        self.peer.visitor.accounts[name] = LaneAccount(name, keys, "owner", **more)

    def may_send(self, account: Any, topic: Any) -> bool:
        self.asked.append(topic.topic)
        return self.allowed

    def may_pull(self, account: Any, plan: Any) -> bool:
        return False

    def takes(self, *frames: bytearray) -> bool:
        """Whether the lane takes all of a read; it takes nothing of a frame that is refused."""
        buffer = bytearray(b"".join(frames))
        before = self.log.position
        self.gate.enter(self.peer)
        end = self.lane.take(buffer, 0, len(buffer), Origin(HOST, HOST, b""))
        assert end == len(buffer) or (end == 0 and self.log.position == before)
        return bool(end == len(buffer))


def test_signed_frames_are_taken_in_both_encodings() -> None:
    world = World(SECRET)
    assert world.takes(frame(), frame(binary=True), frame(body=b"x" * 5000))
    assert world.takes(frame(Zeta="1", _x="2", aA="3", aa="4"))
    assert world.gate.checked == 4
    assert world.asked == [b"orders"]


@pytest.mark.parametrize("size", [*range(1, 140), 1000, 4097])
def test_every_length_of_content(size: int) -> None:
    assert World(SECRET).takes(frame(body=b"b" * size))


def test_secrets_of_any_length_and_random_fields() -> None:
    rng = random.Random(7)
    for size in (7, 20, 63, 64, 65, 100, 300):
        secret = "".join(rng.choice("abcdefÄ€") for _ in range(size))
        extra = {f"x{n}": "v" * rng.randrange(1, 40) for n in range(rng.randrange(8))}
        assert World(secret).takes(frame(secret, **extra))
        assert not World(secret).takes(frame(secret + "x", **extra))


def test_two_secrets_during_a_rotation() -> None:
    world = World("newSecret", "oldSecret")
    assert world.takes(frame("newSecret"), frame("oldSecret"))
    assert not world.takes(frame("olderSecret"))


@pytest.mark.parametrize(
    "changes",
    [
        {"after": {SIGNATURE: "absent"}},
        {"after": {SIGNATURE: "A" * 28}},
        {"after": {SIGNATURE: ""}},
        {"after": {"AccessKey": "absent"}},
        {"after": {"AccessKey": "appaccount"}},
        {"after": {"e": "2"}},  # another queue than was signed
        {"after": {"more": "x"}},
        {"after": {"b": "other"}},
        {"_UNIQUE_KEY_QUERY": "true"},
        {"nämé": "1"},
        {"secret": "wrongSecret"},
    ],
)
def test_what_is_not_signed_right_is_left(changes: dict[str, Any]) -> None:
    assert not World(SECRET).takes(frame(**changes))


def test_a_changed_body_is_left() -> None:
    changed = frame(body=b"hello")
    changed[-1] ^= 1
    assert not World(SECRET).takes(changed)


def test_a_name_twice_is_left() -> None:
    text = frame().replace(b'"extFields":{', b'"extFields":{"a":"other",')
    text[:4] = (len(text) - 4).to_bytes(4, "big")
    text[4:8] = (int.from_bytes(text[4:8], "big") + len('"a":"other",')).to_bytes(4, "big")
    assert not World(SECRET).takes(text)


def test_escapes_in_the_signature_are_undone() -> None:
    text = frame()
    added = text.count(b"=")
    text = text.replace(b"=", b"\\u003d")
    header = int.from_bytes(text[4:8], "big") + 5 * added
    text[:4] = (len(text) - 4).to_bytes(4, "big")
    text[4:8] = header.to_bytes(4, "big")
    assert added == 1
    assert World(SECRET).takes(text)


def test_an_account_that_may_not_is_left_and_asked_once() -> None:
    world = World(SECRET)
    world.allowed = False
    assert not world.takes(frame())
    assert not world.takes(frame())
    assert world.asked == [b"orders"]
    assert world.gate.checked == 0


def test_a_changed_table_ends_what_is_known() -> None:
    world = World(SECRET)
    assert world.takes(frame())
    world.gate.forget()
    assert not world.takes(frame())


def test_a_free_account_needs_no_signature() -> None:
    assert World(is_free=True).takes(frame("wrongSecret"))


def test_a_certificate_stands_for_requests_without_a_key() -> None:
    unsigned = bytearray(Command(310, fields={**FIELDS, "i": TEXT}, body=b"x").encode())
    world = World(name=b"")
    assert world.takes(unsigned)
    assert not world.takes(frame("wrongSecret"))


def test_an_allowance_ends() -> None:
    allowance = Allowance(2, 1 << 20)
    world = World(SECRET, allowance=allowance)
    assert world.takes(frame(), frame())
    assert not world.takes(frame())
    allowance.messages, allowance.size = 5, 4
    assert not world.takes(frame(body=b"12345"))
