"""The capture of golden frames: segments in any order become frames in the right one."""

from __future__ import annotations

import importlib.util
import itertools
import struct
from pathlib import Path
from types import ModuleType

import pytest

from contrailmq.protocol.command import Command

SOURCE = Path(__file__).resolve().parents[2] / "golden" / "capture.py"


@pytest.fixture(scope="module")
def capture() -> ModuleType:
    spec = importlib.util.spec_from_file_location("golden_capture", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def packet(source: int, target: int, sequence: int, data: bytes) -> bytes:
    tcp = struct.pack(">HHIIBBHHH", source, target, sequence, 0, 5 << 4, 0, 0, 0, 0)
    ip = struct.pack(">BBHHHBBHII", 0x45, 0, 20 + len(tcp) + len(data), 0, 0, 64, 6, 0, 0, 0)
    return bytes(12) + b"\x08\x00" + ip + tcp + data


@pytest.mark.parametrize("order", list(itertools.permutations(range(1, 4))))
def test_segments_in_any_order_after_the_first(capture: ModuleType, order: tuple[int, ...]) -> None:
    frames = [bytes(Command.request(10, None, body=bytes([n]) * 40).encode()) for n in range(3)]
    stream = b"".join(frames)
    size = len(stream) // 4 + 1
    cuts = [stream[at : at + size] for at in range(0, len(stream), size)]
    start = 0xFFFFFFF0  # sequence numbers begin again at 0 within the stream
    lines: list[str] = []
    recorder = capture.Recorder({10911: "broker"}, lines.append)
    for number in (0, *order):
        sequence = (start + number * size) & 0xFFFFFFFF
        recorder.take(capture.parse_segment(packet(50000, 10911, sequence, cuts[number])))
    assert len(lines) == 3
    assert all(
        '"from":"client","to":"broker","conn":1,"kind":"request","code":10' in row for row in lines
    )


def test_other_packets_are_not_segments(capture: ModuleType) -> None:
    assert capture.parse_segment(b"") is None
    assert capture.parse_segment(bytes(60)) is None
    assert capture.parse_segment(packet(1, 2, 3, b"")) is None
