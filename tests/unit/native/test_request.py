"""The request scanner agrees with the ordinary decoder on every captured frame, in both builds."""

from __future__ import annotations

import base64
import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrailmq._native.net import request as compiled
from contrailmq.errors import RemoteProtocolError
from contrailmq.protocol.command import Command, Serialization, decode
from testkit.builds import IS_PLAIN

ROOT = Path(__file__).parents[3]
WIRE = ROOT / "tests/golden/data/wire"


def _pure() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "pure_request", ROOT / "src/contrailmq/_native/net/request.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BUILDS = {"compiled": compiled, "pure": _pure()}


@pytest.fixture(params=sorted(BUILDS))
def build(request: pytest.FixtureRequest) -> Any:
    return BUILDS[request.param]


@pytest.mark.skipif(IS_PLAIN, reason="nothing is compiled here")
def test_the_compiled_build_is_compiled() -> None:
    assert str(compiled.__file__).endswith(".so")


def test_every_captured_frame_is_found_as_the_decoder_reads_it(build: Any) -> None:
    scan = build.RequestScan()
    understood = 0
    for path in sorted(WIRE.glob("*/*.jsonl")):
        if "ha-stream" in path.name:
            continue
        for line in path.read_text().splitlines():
            frame = base64.b64decode(json.loads(line)["frame"])
            command = decode(frame[4:])
            if scan.scan(frame, 0, len(frame)) != build.UNDERSTOOD:
                # Remarks, empty binary values and the like are rare, and never on the hot codes.
                assert command.is_response or command.code not in (10, 11, 310, 320, 361)
                continue
            understood += 1
            _same(scan, frame, command)
    assert understood > 4000


def _same(scan: Any, frame: bytes, command: Command) -> None:
    assert (scan.code, scan.opaque) == (command.code, command.opaque)
    assert (scan.flag, scan.version) == (command.flag, command.version)
    assert frame[scan.body_at : scan.frame_end] == command.body
    for name, value in command.fields.items():
        field = scan.find(frame, name.encode())
        assert field >= 0
        assert scan.text(frame, field) == value.encode()


@pytest.mark.parametrize("serialization", list(Serialization))
def test_a_frame_cut_anywhere_is_incomplete(build: Any, serialization: Serialization) -> None:
    command = Command(310, fields={"a": "g", "b": "主题", "i": "K\x01v\x02"}, body=b"body")
    command.serialization = serialization
    frame = command.encode()
    scan = build.RequestScan()
    for end in range(len(frame)):
        assert scan.scan(frame, 0, end) == build.INCOMPLETE
    assert scan.scan(b"??" + frame + b"tail", 2, len(frame) + 6) == build.UNDERSTOOD
    assert scan.frame_end == len(frame) + 2


@given(data=st.data())
def test_damaged_frames_are_left_or_read_as_the_decoder_reads_them(data: st.DataObject) -> None:
    command = Command(
        310,
        fields={"a": "group", "b": "topic", "e": "3", "i": "TAGS\x01A\x02"},
        body=b"body",
        serialization=data.draw(st.sampled_from(list(Serialization))),
    )
    frame = bytearray(command.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(4, len(frame) - 1))] = data.draw(st.integers(0, 255))
    for module in BUILDS.values():
        scan = module.RequestScan()  # type: ignore[attr-defined]
        if scan.scan(bytes(frame), 0, len(frame)) != module.UNDERSTOOD:  # type: ignore[attr-defined]
            continue
        try:
            expected = decode(bytes(frame[4:]))
        except RemoteProtocolError:
            # The scanner judges no text: what it found must still lie inside the frame.
            assert scan.body_at <= scan.frame_end <= len(frame)
            continue
        assert (scan.code, scan.opaque) == (expected.code & 0xFFFFFFFF, expected.opaque)


@pytest.mark.parametrize(
    ("text", "value"), [("0", 0), ("-7", -7), ("007", 7), ("9" * 18, 10**18 - 1)]
)
def test_numbers(build: Any, text: str, value: int) -> None:
    assert build.number_of(text.encode()) == value


@pytest.mark.parametrize("text", ["", "-", "1x", "9" * 19, " 1", "1.0"])
def test_bad_numbers(build: Any, text: str) -> None:
    assert build.number_of(text.encode()) == build.BAD_NUMBER


@given(text=st.text())
def test_unescape_is_the_inverse_of_json(text: str) -> None:
    inside = json.dumps(text)[1:-1].encode()
    for module in BUILDS.values():
        assert module.unescaped(inside) == text.encode()  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", [r"\u12", r"\x", "\\", r"\ud800", r"\ud800\u0041", r"\udc00"])
def test_broken_escapes(build: Any, text: str) -> None:
    assert build.unescaped(text.encode()) is None
