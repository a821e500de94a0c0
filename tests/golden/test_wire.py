"""Every frame captured from the Java system decodes, and what is deterministic encodes back."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from contrailmq.protocol.acl import is_signed_by, signature, signed
from contrailmq.protocol.command import Command, Serialization, decode
from contrailmq.protocol.frame import LENGTH_SIZE, FrameDecoder
from testkit.golden import VERSIONS, WireFrame, vectors, wire_files, wire_frames

KIND_FLAGS = {"request": 0, "oneway": 2, "response": 1}
ACCOUNTS = {"goldUserKey": "goldSecret123", "goldAdminKey": "goldAdminSecret"}


def has_empty_field(frame: bytes) -> bool:
    """Whether a binary header has an entry with an empty value: it is absent once decoded."""
    header_size = int.from_bytes(frame[4:8], "big") & 0xFFFFFF
    header = frame[8 : 8 + header_size]
    position = 17 + int.from_bytes(header[13:17], "big") + 4
    while position < len(header):
        position += 2 + int.from_bytes(header[position : position + 2], "big")
        size = int.from_bytes(header[position : position + 4], "big")
        if size == 0:
            return True
        position += 4 + size
    return False


def java_bytes(frame: WireFrame) -> bytes:
    """The frame without what is written or not at will: an empty ``extFields``."""
    empty = b'"extFields":{},'
    header_size = int.from_bytes(frame.frame[4:8], "big") & 0xFFFFFF
    header = frame.frame[8 : 8 + header_size]
    if frame.header != "json" or empty not in header:
        return frame.frame
    header = header.replace(empty, b"", 1)
    body = frame.frame[8 + header_size :]
    size = 4 + len(header) + len(body)
    return size.to_bytes(4, "big") + len(header).to_bytes(4, "big") + header + body


@pytest.mark.parametrize("path", wire_files(), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_frame_decodes_and_encodes_back(path: Path) -> None:
    for frame in wire_frames(path):
        command = decode(frame.frame[LENGTH_SIZE:])
        if frame.header == "json" or frame.code < 1 << 15:
            assert command.code == frame.code
        assert command.opaque == frame.opaque
        assert command.flag == KIND_FLAGS[frame.kind]
        assert command.serialization.name == {"json": "JSON", "binary": "ROCKETMQ"}[frame.header]
        assert command.language == "JAVA"
        encoded = command.encode()
        assert decode(encoded[LENGTH_SIZE:]) == command
        if frame.header == "json" or not has_empty_field(frame.frame):
            assert encoded == java_bytes(frame)


@pytest.mark.parametrize("path", wire_files(), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_whole_capture_is_one_stream(path: Path) -> None:
    frames = [frame.frame for frame in wire_frames(path)]
    stream = b"".join(frames)
    expected = [frame[LENGTH_SIZE:] for frame in frames]
    for step in (1 << 30, 1460, 7):
        decoder = FrameDecoder()
        found: list[bytes] = []
        for start in range(0, len(stream), step):
            found += decoder.feed(stream[start : start + step])
        assert found == expected
        assert decoder.pending_size == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_vectors_of_both_header_forms(version: str) -> None:
    rows = vectors(version, "remoting-command")
    assert {row["serializeType"] for row in rows} == {"JSON", "ROCKETMQ"}
    for row in rows:
        frame = base64.b64decode(row["frame"])
        made = Command(
            row["code"],
            fields=row["ext"],
            body=base64.b64decode(row["body"] or ""),
            opaque=row["opaque"],
            flag=row["flag"],
            remark=row["remark"],
            language=row["language"],
            version=row["version"],
            serialization=Serialization[row["serializeType"]],
        )
        found = decode(frame[LENGTH_SIZE:])
        if row["serializeType"] == "ROCKETMQ":
            made.fields = {name: value for name, value in made.fields.items() if value}
        assert found == made
        if found.fields.keys() == (row["ext"] or {}).keys():
            # Java's map order is a hash order: the decoded one is the order on the wire.
            assert found.encode() == frame


@pytest.mark.parametrize("version", VERSIONS)
def test_an_empty_binary_value_is_written(version: str) -> None:
    rows = [r for r in vectors(version, "remoting-command") if r["serializeType"] == "ROCKETMQ"]
    rows = [row for row in rows if row["ext"] == {"empty": ""}]
    assert rows
    for row in rows:
        frame = base64.b64decode(row["frame"])
        command = decode(frame[LENGTH_SIZE:])
        command.fields["empty"] = ""
        assert command.encode() == frame


@pytest.mark.parametrize("version", VERSIONS)
def test_signatures_equal_java(version: str) -> None:
    seen = 0
    for row in vectors(version, "acl-signature"):
        if "text" in row:
            assert signature({"only": row["text"]}, b"", row["secretKey"]) == row["signature"]
            continue
        body = base64.b64decode(row["body"] or "")
        found = signed(
            row["ext"],
            body,
            access_key=row["accessKey"],
            secret_key=row["secretKey"],
            security_token=row["securityToken"],
        )
        assert found == row["signedExt"]
        assert found["Signature"] == row["signature"]
        seen += 1
    assert seen > 5


@pytest.mark.parametrize("path", [p for p in wire_files() if p.stem == "acl"], ids=str)
def test_captured_requests_carry_the_signature_we_compute(path: Path) -> None:
    seen = 0
    for frame in wire_frames(path):
        command = decode(frame.frame[LENGTH_SIZE:])
        secret = ACCOUNTS.get(command.fields.get("AccessKey", ""))
        if secret is None:
            continue
        seen += 1
        assert is_signed_by(command.fields, command.body, secret, version=command.version)
        assert not is_signed_by(command.fields, b"x", secret, version=command.version)
        assert not is_signed_by(command.fields, command.body, "wrong", version=command.version)
    assert seen
