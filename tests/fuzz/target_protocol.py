"""Targets of the protocol layer: frames, commands, the JSON dialect, bodies."""

from __future__ import annotations

import base64
import functools
import importlib
import inspect
import pkgutil
import zlib
from collections.abc import Callable

from contrailmq.errors import RemoteProtocolError
from contrailmq.protocol import headers as header_package
from contrailmq.protocol.bodies import (
    acl,
    clients,
    group,
    heartbeat,
    queues,
    route,
    stats,
    topic,
    version,
)
from contrailmq.protocol.bodies.body import Body
from contrailmq.protocol.command import decode
from contrailmq.protocol.fastjson import dumps, loads
from contrailmq.protocol.frame import LENGTH_SIZE, FrameDecoder
from contrailmq.protocol.header import Header
from testkit.golden import VERSIONS, vectors, wire_files, wire_frames

Seeds = Callable[[], list[bytes]]

JSON_WORDS = (
    *(b'"', b"'", b"{", b"}", b"[", b"]", b":", b",", b"\\", b"/*", b"*/", b"//", b"null"),
    *(b'{"$ref":"$"}', b'{"$ref":".."}', b'{"$ref":"@"}', b'"\\ud83d"', b"\\u0024", b"1e999"),
    *(b"9223372036854775808", b"-1", b"1.5", b"true", b'"true"', b"NaN", b"{0:", b"[" * 200),
    b'{{"brokerName":"b","queueId":1,"topic":"t"}:1}',
)


@functools.cache
def some_frames() -> tuple[bytes, ...]:
    """A few frames of every capture, both header forms among them."""
    found: list[bytes] = []
    for path in wire_files():
        frames = [frame.frame for frame in wire_frames(path)]
        found += frames[:: max(1, len(frames) // 5)]
    return tuple(found)


def frame_seeds() -> list[bytes]:
    """Streams of several frames."""
    frames = some_frames()
    return [b"".join(frames[i : i + 3]) for i in range(0, len(frames), 3)]


def check_frames(data: bytes) -> None:
    """Whole, byte by byte, and in two parts: the same frames, or the same refusal."""
    outcomes = [cut(data, step) for step in (len(data) or 1, 1, len(data) // 2 + 1)]
    assert outcomes[0] == outcomes[1] == outcomes[2]


def cut(data: bytes, step: int) -> tuple[list[bytes], bool]:
    """The frames before the first refusal, and whether there was one."""
    decoder = FrameDecoder(1 << 20)
    frames: list[bytes] = []
    for start in range(0, len(data), step):
        piece = data[start : start + step]
        try:
            frames += decoder.feed(piece)
        except RemoteProtocolError:
            # The whole input is refused at once: count what came before by feeding less.
            if step == 1:
                return frames, True
            return cut(data, 1)
    return frames, False


def command_seeds() -> list[bytes]:
    """Frames without their lengths."""
    return [frame[LENGTH_SIZE:] for frame in some_frames()]


def header_seeds(kind: int) -> list[bytes]:
    """Headers alone, of one form."""
    found = []
    for frame in some_frames():
        size = int.from_bytes(frame[5:8], "big")
        if frame[4] == kind:
            found.append(frame[8 : 8 + size])
    assert found
    return found


def check_command(data: bytes) -> None:
    """A command or the protocol's own error; what was taken can be sent on and read again."""
    try:
        command = decode(data)
    except RemoteProtocolError:
        return
    assert all(type(part) is str for pair in command.fields.items() for part in pair)
    again = decode(command.encode()[LENGTH_SIZE:])
    assert (again.code, again.opaque, again.flag) == (command.code, command.opaque, command.flag)
    assert again.body == command.body
    view = decode(memoryview(data), copy_body=False)
    assert (view.fields, view.remark, view.body) == (command.fields, command.remark, command.body)


def check_header(kind: int) -> Callable[[bytes], None]:
    """The same with the header's size always right, so that its inside is reached."""

    def check(data: bytes) -> None:
        check_command(((kind << 24) | len(data)).to_bytes(4, "big") + data + b"body")

    return check


def header_classes() -> list[type[Header]]:
    """Every typed header there is."""
    found: list[type[Header]] = []
    for module_name in pkgutil.iter_modules(
        header_package.__path__, "contrailmq.protocol.headers."
    ):
        module = importlib.import_module(module_name.name)
        found += [
            member
            for _, member in inspect.getmembers(module, inspect.isclass)
            if issubclass(member, Header) and member.__module__ == module.__name__
        ]
    assert len(found) > 80
    return found


HEADERS = header_classes()


def check_typed_headers(data: bytes) -> None:
    """Any ext fields become a header or the protocol's own error; a header goes there and back."""
    try:
        fields = decode(data).fields
    except RemoteProtocolError:
        return
    for kind in HEADERS:
        try:
            header = kind.from_fields(fields)
        except RemoteProtocolError:
            continue
        assert kind.from_fields(header.to_fields()) == header


def json_seeds() -> list[bytes]:
    """Bodies as Java's classes write them, and those that were captured."""
    found = [
        row["json"].encode("utf-8", "replace")
        for line in VERSIONS
        for row in vectors(line, "fastjson-bodies")
    ]
    for frame in some_frames():
        body = bytes(decode(frame[LENGTH_SIZE:]).body)
        if body.startswith((b"{", b"[")):
            found.append(body)
    return found


def check_json(data: bytes) -> None:
    """A value or the protocol's own error; a value without circles is written and read again."""
    try:
        value = loads(data)
    except RemoteProtocolError:
        return
    if b"$ref" not in data and b"\\u" not in data:
        # Twice, because what is no number is written as null, and then left out.
        written = dumps(loads(dumps([value])))
        assert dumps(loads(written)) == written


BODIES: list[type[Body]] = sorted(
    {
        member
        for module in (acl, clients, group, heartbeat, queues, route, stats, topic, version)
        for _, member in inspect.getmembers(module, inspect.isclass)
        if issubclass(member, Body) and member is not Body
    },
    key=lambda kind: kind.__name__,
)


def check_bodies(data: bytes) -> None:
    """A body class reads it or raises the protocol's own error; what was read is stable."""
    for kind in BODIES[zlib.crc32(data) % 8 :: 8]:  # each input has its eighth of the classes
        try:
            body = kind.decode(data)
        except RemoteProtocolError:
            continue
        if b"$ref" not in data and b"\\u" not in data:
            assert kind.decode(body.encode()).encode() == body.encode()


def registration_seeds() -> list[bytes]:
    """The inside of compressed registrations."""
    return [
        base64.b64decode(row["inflated"])
        for line in VERSIONS
        for row in vectors(line, "register-body")
        if row["compressed"]
    ]


def check_registration(data: bytes) -> None:
    """A registration or the protocol's own error, whatever was compressed, or was not."""
    for compressed in (zlib.compress(data, 1), data):
        try:
            body = topic.RegisterBrokerBody.decode_compressed(compressed)
        except RemoteProtocolError:
            continue
        body.encode_compressed()


TARGETS = [
    ("frame", "frames do not depend on how the stream is cut", check_frames, frame_seeds),
    ("command", "a command or RemoteProtocolError", check_command, command_seeds),
    (
        "command_json",
        "a command or RemoteProtocolError",
        check_header(0),
        lambda: header_seeds(0),
        JSON_WORDS,
    ),
    (
        "command_binary",
        "a command or RemoteProtocolError",
        check_header(1),
        lambda: header_seeds(1),
    ),
    ("typed_headers", "a header or RemoteProtocolError", check_typed_headers, command_seeds),
    ("fastjson", "a value or RemoteProtocolError", check_json, json_seeds, JSON_WORDS),
    ("bodies", "a body or RemoteProtocolError", check_bodies, json_seeds, JSON_WORDS),
    (
        "registration",
        "a registration or RemoteProtocolError",
        check_registration,
        registration_seeds,
        JSON_WORDS,
    ),
]
