"""The bytes of replication: whole, in pieces, cut short, and garbage."""

from __future__ import annotations

import random

import pytest

from contrailmq.errors import ProtocolError
from contrailmq.ha import wire


def collected(reader: wire.FrameReader, pieces: list[bytes]) -> list[object]:
    found: list[object] = []
    for piece in pieces:
        for item in reader.feed(piece):
            if isinstance(item, memoryview):
                if found and isinstance(found[-1], bytes):
                    found[-1] += bytes(item)
                else:
                    found.append(bytes(item))
            else:
                found.append(item)
    return found


def cut(data: bytes, rng: random.Random) -> list[bytes]:
    pieces = []
    while data:
        size = rng.randint(1, 20)
        pieces.append(data[:size])
        data = data[size:]
    return pieces


@pytest.mark.parametrize("seed", range(10))
def test_frames_in_any_pieces(seed: int) -> None:
    rng = random.Random(seed)
    frames = [(rng.randrange(1 << 40), rng.randbytes(rng.randrange(60))) for _ in range(20)]
    data = b"".join(wire.classic_frame(wire.Frame(o, len(b))) + b for o, b in frames)
    expected: list[object] = []
    for offset, body in frames:
        expected.append(wire.Frame(offset, len(body)))
        if body:
            expected.append(body)
    assert collected(wire.FrameReader(), cut(data, rng)) == expected
    for length in range(len(data)):
        assert len(collected(wire.FrameReader(), [data[:length]])) <= len(expected)


@pytest.mark.parametrize("seed", range(10))
def test_frames_of_controller_mode_in_any_pieces(seed: int) -> None:
    rng = random.Random(seed)
    hello = wire.PrimaryHello(900, 2, (wire.Epoch(1, 0), wire.Epoch(2, 500)))
    frame = wire.Frame(500, 30, 2, 500, 480)
    data = wire.primary_hello(hello) + wire.auto_frame(frame) + bytes(range(30))
    assert collected(wire.AutoFrameReader(), cut(data, rng)) == [hello, frame, bytes(range(30))]


def test_of_several_reports_the_newest_counts() -> None:
    reader = wire.ReportReader()
    data = b"".join(map(wire.classic_report, (5, 6, 7)))
    assert reader.feed(data[:20]) == [6]
    assert reader.feed(data[20:]) == [7]


def test_reports_and_handshakes_of_controller_mode() -> None:
    reader = wire.AutoReportReader()
    hello = wire.ReplicaHello(from_last_file=False, is_learner=True, broker_id=7)
    data = wire.replica_hello(hello) + wire.auto_report(4) + wire.auto_report(9)
    assert reader.feed(data[:15]) == []
    assert reader.feed(data[15:-1]) == [hello, 4]
    assert reader.feed(data[-1:]) == [9]


@pytest.mark.parametrize(
    ("reader", "data"),
    [
        (wire.FrameReader(), wire.FRAME.pack(-1, 5)),
        (wire.FrameReader(), wire.FRAME.pack(5, -1)),
        (wire.AutoFrameReader(), bytes((0, 0, 0, 9)) + bytes(40)),
        (
            wire.AutoFrameReader(),
            wire.primary_hello(wire.PrimaryHello(0, 0, ()))[:4] + b"\x7f" * 40,
        ),
    ],
)
def test_garbage_is_an_error(reader: wire.FrameReader, data: bytes) -> None:
    with pytest.raises(ProtocolError):
        list(reader.feed(data))


def test_garbage_of_a_replica_is_an_error() -> None:
    with pytest.raises(ProtocolError):
        wire.AutoReportReader().feed(bytes(12))
