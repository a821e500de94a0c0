"""A remoting command: request, response or oneway, with a JSON or a binary header.

``decode`` takes a frame without its length prefix, ``Command.encode`` makes a whole frame.  A
reply is written in the encoding of its request.  Ext fields keep unknown names; their values are
text, whatever JSON type the peer gave them.
"""

from __future__ import annotations

import enum
import json
import struct
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from contrailmq.errors import LocalProtocolError, RemoteProtocolError
from contrailmq.protocol.codes import Language
from contrailmq.protocol.frame import FRAME_SIZE_MAX, LENGTH_SIZE
from contrailmq.protocol.header import Header

RESPONSE_FLAG: Final = 1
ONEWAY_FLAG: Final = 2
VERSION_ORDINAL: Final = 453  # MQVersion.V5_2_0: what we speak, and what peers adapt to

_WORD = struct.Struct(">I")
_BINARY_HEAD = struct.Struct(">hBhii")


class Serialization(enum.IntEnum):
    """How a header is written (SerializeType)."""

    JSON = 0
    ROCKETMQ = 1


class Command:
    """One request, response or oneway, as a value."""

    __slots__ = (
        "body",
        "code",
        "fields",
        "flag",
        "language",
        "opaque",
        "remark",
        "serialization",
        "version",
    )

    def __init__(
        self,
        code: int,
        *,
        fields: dict[str, str] | None = None,
        body: bytes | bytearray | memoryview = b"",
        opaque: int = 0,
        flag: int = 0,
        remark: str | None = None,
        language: str = "PYTHON",
        version: int = VERSION_ORDINAL,
        serialization: Serialization = Serialization.JSON,
    ) -> None:
        self.code = code
        self.fields: dict[str, str] = {} if fields is None else fields
        self.body = body
        self.opaque = opaque
        self.flag = flag
        self.remark = remark
        self.language = language
        self.version = version
        self.serialization = serialization

    @classmethod
    def request(
        cls,
        code: int,
        header: Header | None = None,
        *,
        body: bytes | bytearray | memoryview = b"",
        oneway: bool = False,
    ) -> Command:
        """A request with a typed header; the connection gives it its opaque."""
        fields = header.to_fields() if header is not None else {}
        return cls(int(code), fields=fields, body=body, flag=ONEWAY_FLAG if oneway else 0)

    def reply(
        self,
        header: Header | None = None,
        *,
        body: bytes | bytearray | memoryview = b"",
        code: int = 0,
        remark: str | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> Command:
        """Answer this request, by default with SUCCESS."""
        out = header.to_fields() if header is not None else {}
        if fields:
            out.update(fields)
        return Command(
            code,
            fields=out,
            body=body,
            opaque=self.opaque,
            flag=RESPONSE_FLAG,
            remark=remark,
            serialization=self.serialization,
        )

    def refuse(self, code: int, remark: str) -> Command:
        """Answer this request with an error."""
        return self.reply(code=int(code), remark=remark)

    @property
    def is_response(self) -> bool:
        """Whether this answers a request."""
        return bool(self.flag & RESPONSE_FLAG)

    @property
    def is_oneway(self) -> bool:
        """Whether nobody waits for an answer."""
        return bool(self.flag & ONEWAY_FLAG)

    def encode(self) -> bytes:
        """The whole frame, length included."""
        return b"".join((self.encode_head(), self.body))

    def encode_head(self) -> bytes:
        """The frame up to its body: what a gathered write puts before the body's own buffer."""
        if self.serialization == Serialization.JSON:
            header = _encode_json(self)
        else:
            header = _encode_binary(self)
        size = LENGTH_SIZE + len(header) + len(self.body)
        if size + LENGTH_SIZE > FRAME_SIZE_MAX:
            raise LocalProtocolError(
                f"frame of {size + LENGTH_SIZE} bytes (code {self.code}), at most {FRAME_SIZE_MAX}"
            )
        word = (int(self.serialization) << 24) | len(header)
        return _WORD.pack(size) + _WORD.pack(word) + header

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Command):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in Command.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        kind = "response" if self.is_response else "oneway" if self.is_oneway else "request"
        remark = f" remark={self.remark!r}" if self.remark else ""
        return (
            f"<Command {kind} code={self.code} opaque={self.opaque} fields={self.fields}"
            f" body={len(self.body)} bytes{remark}>"
        )


def decode(frame: bytes | bytearray | memoryview, *, copy_body: bool = True) -> Command:
    """Read one frame (without its length); ``copy_body=False`` leaves the body a view of it."""
    size = len(frame)
    if size < LENGTH_SIZE:
        raise RemoteProtocolError(f"frame of {size} bytes has no room for a header length")
    (word,) = _WORD.unpack_from(frame)
    header_end = LENGTH_SIZE + (word & 0xFFFFFF)
    if header_end > size:
        raise RemoteProtocolError(f"header of {word & 0xFFFFFF} bytes in a frame of {size}")
    view = memoryview(frame)
    header = view[LENGTH_SIZE:header_end]
    kind = word >> 24
    if kind == Serialization.JSON:
        command = _decode_json(bytes(header))
    elif kind == Serialization.ROCKETMQ:
        command = _decode_binary(bytes(header))
    else:
        raise RemoteProtocolError(f"serialization type {kind}, known are 0 (JSON) and 1 (ROCKETMQ)")
    body = view[header_end:]
    command.body = bytes(body) if copy_body else body
    return command


class _JsonHeader(msgspec.Struct):
    """The header as JSON; the encoder writes the keys in the alphabetical order Java uses."""

    code: int = 0
    extFields: dict[str, str] | None = None
    flag: int = 0
    language: str | None = None
    opaque: int = 0
    remark: str | None = None
    serializeTypeCurrentRPC: str | None = None
    version: int = 0


_decode_strict = msgspec.json.Decoder(_JsonHeader).decode


def _decode_json(header: bytes) -> Command:
    try:
        found = _decode_strict(header)
        return Command(
            found.code,
            fields=found.extFields,
            opaque=found.opaque,
            flag=found.flag,
            remark=found.remark,
            language=found.language or "",
            version=found.version,
        )
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _decode_json_loosely(header)


def _decode_json_loosely(header: bytes) -> Command:
    """Numbers and booleans among the ext fields (C++, Node), nulls, numbers as text."""
    try:
        found = json.loads(header)
    except (ValueError, RecursionError) as error:
        raise RemoteProtocolError(f"header is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise RemoteProtocolError("header is not a JSON object")
    ext = found.get("extFields")
    if ext is not None and not isinstance(ext, dict):
        raise RemoteProtocolError("extFields is not a JSON object")
    fields = {name: _text(value) for name, value in (ext or {}).items() if value is not None}
    remark = found.get("remark")
    return Command(
        _integer(found, "code"),
        fields=fields,
        opaque=_integer(found, "opaque"),
        flag=_integer(found, "flag"),
        remark=None if remark is None else _text(remark),
        language=_text(found.get("language") or ""),
        version=_integer(found, "version"),
    )


def _integer(found: dict[str, Any], name: str) -> int:
    value = found.get(name, 0)
    try:
        return int(value) if value is not None else 0
    except (TypeError, ValueError) as error:
        raise RemoteProtocolError(f"header field {name}={value!r} is not a number") from error


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _encode_json(command: Command) -> bytes:
    header: dict[str, Any] = {"code": command.code}
    if command.fields:
        header["extFields"] = command.fields
    header["flag"] = command.flag
    header["language"] = command.language
    header["opaque"] = command.opaque
    if command.remark is not None:
        header["remark"] = command.remark
    header["serializeTypeCurrentRPC"] = "JSON"
    header["version"] = command.version
    return msgspec.json.encode(header)


def _encode_binary(command: Command) -> bytes:
    remark = (command.remark or "").encode()
    entries: list[bytes] = []
    for name, value in command.fields.items():
        key, text = name.encode(), value.encode()
        entries += (struct.pack(">h", len(key)), key, struct.pack(">i", len(text)), text)
    ext = b"".join(entries)
    code = ((command.code + 0x8000) & 0xFFFF) - 0x8000  # RocketMQSerializable writes a short
    head = _BINARY_HEAD.pack(
        code, Language.of(command.language), command.version, command.opaque, command.flag
    )
    return b"".join(
        (head, struct.pack(">i", len(remark)), remark, struct.pack(">i", len(ext)), ext)
    )


def _decode_binary(header: bytes) -> Command:
    try:
        code, language, version, opaque, flag = _BINARY_HEAD.unpack_from(header)
        remark, position = _take(header, _BINARY_HEAD.size)
        ext, _ = _take(header, position)
    except struct.error as error:
        raise RemoteProtocolError(f"binary header of {len(header)} bytes is cut off") from error
    return Command(
        code,
        fields=_decode_entries(ext),
        opaque=opaque,
        flag=flag,
        remark=_utf8(remark) if remark else None,
        language=Language.name_of(language),
        version=version,
        serialization=Serialization.ROCKETMQ,
    )


def _take(header: bytes, position: int) -> tuple[bytes, int]:
    (size,) = struct.unpack_from(">i", header, position)
    start = position + 4
    if not 0 <= size <= len(header) - start:
        raise RemoteProtocolError(
            f"binary header: {size} bytes where {len(header) - start} are left"
        )
    return header[start : start + size], start + size


def _decode_entries(ext: bytes) -> dict[str, str]:
    fields: dict[str, str] = {}
    position = 0
    try:
        while position < len(ext):
            (key_size,) = struct.unpack_from(">h", ext, position)
            position += 2
            if not 0 <= key_size <= len(ext) - position:
                raise RemoteProtocolError(f"binary header: ext key of {key_size} bytes")
            key = ext[position : position + key_size]
            value, position = _take(ext, position + key_size)
            if key and value:  # a zero-length string decodes to null, that is, to absent
                fields[_utf8(key)] = _utf8(value)
    except struct.error as error:
        raise RemoteProtocolError("binary header: ext fields are cut off") from error
    return fields


def _utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"binary header is not UTF-8: {error}") from error
