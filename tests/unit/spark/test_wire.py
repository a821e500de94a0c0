"""A task's connection: answers found by the quick scan are those the ordinary decoder reads."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contrailmq.errors import ConnectionLost, RemoteProtocolError
from contrailmq.protocol.command import Command, Serialization, decode

pytest.importorskip("pyspark")

from contrailmq._native.spark.answers import Answer
from contrailmq.bulk.wire import Wire, command_of

pytestmark = pytest.mark.spark
RESPONSE = 1


class Peer:
    """The other end of a wire."""

    def __init__(self) -> None:
        with closing(socket.create_server(("127.0.0.1", 0))) as server:
            host, port = server.getsockname()
            self.wire = Wire(f"{host}:{port}", timeout_s=10)
            self.socket, _ = server.accept()

    def close(self) -> None:
        self.wire.close()
        self.socket.close()


@pytest.fixture
def peer() -> Iterator[Peer]:
    found = Peer()
    yield found
    found.close()


def _answer(
    opaque: int, following: str | None, *, code: int = 0, remark: str | None = None
) -> Command:
    fields = {"minOffset": "0", "maxOffset": "9"}
    if following is not None:
        fields["nextBeginOffset"] = following
    return Command(
        code, fields=fields, body=b"B" * opaque, opaque=opaque, flag=RESPONSE, remark=remark
    )


def _received(peer: Peer, data: bytes, count: int, *, step: int) -> list[Answer]:
    found: list[Answer] = []
    for at in range(0, len(data), step):
        peer.socket.sendall(data[at : at + step])
        found += peer.wire.receive()
    while len(found) < count:
        found += peer.wire.receive()
    return found


COMMANDS = st.builds(
    _answer,
    st.integers(0, 500),
    st.one_of(st.none(), st.integers(0, 2**62).map(str)),
    code=st.sampled_from([0, 1, 19, 20, 21, 2]),
    remark=st.one_of(st.none(), st.text(max_size=20)),
)


@given(
    commands=st.lists(COMMANDS, min_size=1, max_size=6),
    binary=st.booleans(),
    step=st.integers(1, 4000),
)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_answers_are_those_of_the_ordinary_decoder(
    peer: Peer, commands: list[Command], binary: bool, step: int
) -> None:
    if binary:
        for command in commands:
            command.serialization = Serialization.ROCKETMQ
    frames = [command.encode() for command in commands]
    found = _received(
        peer, b"".join(frames), len(frames), step=max(step, len(b"".join(frames)) // 40 + 1)
    )
    for frame, answer in zip(frames, found, strict=True):
        wanted = decode(frame[4:])
        assert (answer.code, answer.opaque) == (wanted.code, wanted.opaque)
        assert answer.following == int(wanted.fields.get("nextBeginOffset", -1))
        assert bytes(answer.body()) == wanted.body
        wanted.body = b""
        assert command_of(answer) == wanted
        peer.wire.intake.release(answer.arena)


def test_what_is_no_answer_is_passed_over(peer: Peer) -> None:
    request = Command(36, fields={"a": "b"}, opaque=1)
    odd = b'{"code":0,"flag":1,"opaque":7,"extFields":{"nextBeginOffset":"5","x":null}}'
    frame = (4 + len(odd)).to_bytes(4, "big") + len(odd).to_bytes(4, "big") + odd
    data = request.encode() + frame + _answer(3, "8").encode()
    first, second = _received(peer, data, 2, step=len(data))
    assert (first.opaque, first.following) == (7, 5)
    assert (second.opaque, second.following) == (3, 8)


@pytest.mark.parametrize("size", [3, 2**31 - 1, 2**32 - 1])
def test_an_impossible_frame_is_an_error(peer: Peer, size: int) -> None:
    peer.socket.sendall(size.to_bytes(4, "big") + bytes(8))
    with pytest.raises(RemoteProtocolError):
        peer.wire.receive()


def test_the_end_of_a_connection_is_an_error(peer: Peer) -> None:
    peer.socket.close()
    with pytest.raises(ConnectionLost):
        peer.wire.receive()
