"""A remoting command: request, response or oneway, with a JSON or a binary header.

``decode`` takes a frame without its length prefix, ``Command.encode`` makes a whole frame.  A
reply is written in the encoding of its request.  Ext fields keep unknown names; their values are
text, whatever JSON type the peer gave them, and a null is an absent field.

A binary header is::

    code 2 · language 1 · version 2 · opaque 4 · flag 4 · remark size 4 · remark
    · ext size 4 · entries: key size 2 · key · value size 4 · value

A code that needs more than 16 bits is cut to them there, as Java cuts it: POP works with JSON
headers only.  An empty value arrives as an absent field, an empty remark as none.
"""

from __future__ import annotations

import enum
import re
import struct
from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec

from contrailmq.errors import LocalProtocolError, RemoteProtocolError
from contrailmq.protocol.codes import Language
from contrailmq.protocol.fastjson import count_values, dumps, loads
from contrailmq.protocol.frame import FRAME_SIZE_MAX, LENGTH_SIZE
from contrailmq.protocol.header import Header
from contrailmq.protocol.json_reader import key_text
from contrailmq.protocol.versions import CURRENT_VERSION

RESPONSE_FLAG: Final = 1
ONEWAY_FLAG: Final = 2
VERSION_ORDINAL: Final = CURRENT_VERSION

Bytes = bytes | bytearray | memoryview

HEADER_SIZE_MAX: Final = 512 * 1024  # a binary one of this size takes 40 ms
LOOSE_VALUES_MAX: Final = 4_000
_WORD = struct.Struct(">I")
_TWO_WORDS = struct.Struct(">II")
_INT = struct.Struct(">i")
_SHORT = struct.Struct(">h")
_BINARY_HEAD = struct.Struct(">hBhii")
_INTEGER = re.compile(r"[-+]?\d{1,10}", re.ASCII)
_INT32_MIN: Final = -(1 << 31)
_INT32_MAX: Final = (1 << 31) - 1


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
        body: Bytes = b"",
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
        body: Bytes = b"",
        oneway: bool = False,
    ) -> Command:
        """A request with a typed header; the connection gives it its opaque."""
        fields = header.to_fields() if header is not None else {}
        return cls(int(code), fields=fields, body=body, flag=ONEWAY_FLAG if oneway else 0)

    def reply(
        self,
        header: Header | None = None,
        *,
        body: Bytes = b"",
        code: int = 0,
        remark: str | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> Command:
        """Answer this request, by default with SUCCESS."""
        out = header.to_fields() if header is not None else {}
        if fields:
            out.update(fields)
        return Command(
            int(code),
            fields=out,
            body=body,
            opaque=self.opaque,
            flag=RESPONSE_FLAG,
            remark=remark,
            serialization=self.serialization,
        )

    def refuse(self, code: int, remark: str) -> Command:
        """Answer this request with an error."""
        return self.reply(code=code, remark=remark)

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
        body = self.body
        if isinstance(body, memoryview) and (
            body.itemsize != 1 or body.ndim != 1 or not body.contiguous
        ):
            self.body = body.tobytes()  # its length counts items, and a socket wants bytes
        try:
            if self.serialization == Serialization.JSON:
                header = _encode_json(self)
            else:
                header = _encode_binary(self)
        except (struct.error, TypeError, AttributeError) as error:
            raise LocalProtocolError(f"code {self.code} has no header: {error}") from error
        size = LENGTH_SIZE + len(header) + len(self.body)
        if size + LENGTH_SIZE > FRAME_SIZE_MAX:
            raise LocalProtocolError(
                f"frame of {size + LENGTH_SIZE} bytes (code {self.code}), at most {FRAME_SIZE_MAX}"
            )
        return _TWO_WORDS.pack(size, (self.serialization << 24) | len(header)) + header

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


def decode(frame: Bytes, *, copy_body: bool = True) -> Command:
    """Read one frame (without its length); ``copy_body=False`` leaves the body a view of it."""
    size = len(frame)
    if size < LENGTH_SIZE:
        raise RemoteProtocolError(f"frame of {size} bytes has no room for a header length")
    (word,) = _WORD.unpack_from(frame)
    header_end = LENGTH_SIZE + (word & 0xFFFFFF)
    if header_end > size:
        raise RemoteProtocolError(f"header of {word & 0xFFFFFF} bytes in a frame of {size}")
    if header_end > HEADER_SIZE_MAX:
        raise RemoteProtocolError(f"header of {header_end} bytes, at most {HEADER_SIZE_MAX}")
    header = bytes(frame[LENGTH_SIZE:header_end])
    kind = word >> 24
    if kind == Serialization.JSON:
        command = _decode_json(header)
    elif kind == Serialization.ROCKETMQ:
        command = _decode_binary(header)
    else:
        raise RemoteProtocolError(f"serialization type {kind}, known are 0 (JSON) and 1 (ROCKETMQ)")
    if header_end < size:
        command.body = bytes(frame[header_end:]) if copy_body else memoryview(frame)[header_end:]
    return command


_Int32 = Annotated[int, msgspec.Meta(ge=_INT32_MIN, le=_INT32_MAX)]


class _JsonHeader(msgspec.Struct, omit_defaults=True):
    """The header as JSON; the encoder writes the keys in the alphabetical order Java uses."""

    code: _Int32 | None = None
    extFields: dict[str, str] | None = None
    flag: _Int32 | None = None
    language: str | None = None
    opaque: _Int32 | None = None
    remark: str | None = None
    serializeTypeCurrentRPC: str | None = None
    version: _Int32 | None = None


_decode_strict = msgspec.json.Decoder(_JsonHeader).decode
_encode_strict = msgspec.json.Encoder().encode


def _decode_json(header: bytes) -> Command:
    try:
        found = _decode_strict(header)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return _decode_json_loosely(header)
    return Command(
        found.code or 0,
        fields=found.extFields,
        opaque=found.opaque or 0,
        flag=found.flag or 0,
        remark=found.remark,
        language=found.language or "",
        version=found.version or 0,
    )


def _decode_json_loosely(header: bytes) -> Command:
    """Numbers and booleans among the ext fields (C++, Node), nulls, fastjson's dialect."""
    count = count_values(header)
    if count > LOOSE_VALUES_MAX:
        raise RemoteProtocolError(
            f"header of about {count} JSON values that are not all texts, at most "
            f"{LOOSE_VALUES_MAX}"
        )
    found = loads(header)
    if not isinstance(found, dict):
        raise RemoteProtocolError("header is not a JSON object")
    ext = found.get("extFields")
    if ext is not None and not isinstance(ext, dict):
        raise RemoteProtocolError("extFields is not a JSON object")
    fields = {
        name if isinstance(name, str) else key_text(name): _text(value)
        for name, value in (ext or {}).items()
        if value is not None
    }
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
    value = found.get(name)
    if value is None:
        return 0
    if isinstance(value, str):
        value = int(value) if _INTEGER.fullmatch(value) else value
    elif isinstance(value, float):
        value = int(value) if value.is_integer() else value
    if not isinstance(value, int) or not _INT32_MIN <= value <= _INT32_MAX:
        raise RemoteProtocolError(f"header field {name}={str(value)[:40]!r} is not an int")
    return int(value)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return dumps(value).decode()
    except LocalProtocolError as error:  # it refers to itself
        raise RemoteProtocolError(f"header: {error}") from error


def _encode_json(command: Command) -> bytes:
    header = _JsonHeader(
        code=command.code,
        extFields=command.fields or None,
        flag=command.flag,
        language=command.language,
        opaque=command.opaque,
        remark=command.remark,
        serializeTypeCurrentRPC="JSON",
        version=command.version,
    )
    try:
        return _encode_strict(header)
    except UnicodeEncodeError:
        # Half a surrogate pair is no character: Java writes a question mark for it.
        header.extFields = {_whole(k): _whole(v) for k, v in command.fields.items()}
        header.remark = None if command.remark is None else _whole(command.remark)
        header.language = _whole(command.language)
        return _encode_strict(header)


def _whole(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _encode_binary(command: Command) -> bytes:
    remark = (command.remark or "").encode("utf-8", "replace")
    entries: list[bytes] = []
    for name, value in command.fields.items():
        key, text = name.encode("utf-8", "replace"), value.encode("utf-8", "replace")
        entries += (_SHORT.pack(len(key)), key, _INT.pack(len(text)), text)
    ext = b"".join(entries)
    code = ((command.code + 0x8000) & 0xFFFF) - 0x8000  # RocketMQSerializable writes a short
    head = _BINARY_HEAD.pack(
        code, Language.of(command.language), command.version, command.opaque, command.flag
    )
    return b"".join((head, _INT.pack(len(remark)), remark, _INT.pack(len(ext)), ext))


def _decode_binary(header: bytes) -> Command:
    try:
        code, language, version, opaque, flag = _BINARY_HEAD.unpack_from(header)
        remark, position = _take(header, _BINARY_HEAD.size)
        ext, _ = _take(header, position)
        fields = _decode_entries(ext)
    except struct.error as error:
        raise RemoteProtocolError(f"binary header of {len(header)} bytes is cut off") from error
    return Command(
        code,
        fields=fields,
        opaque=opaque,
        flag=flag,
        remark=remark.decode("utf-8", "replace") if remark else None,
        language=Language.name_of(language),
        version=version,
        serialization=Serialization.ROCKETMQ,
    )


def _take(header: bytes, position: int) -> tuple[bytes, int]:
    (size,) = _INT.unpack_from(header, position)
    start = position + 4
    if not 0 <= size <= len(header) - start:
        raise RemoteProtocolError(
            f"binary header: {size} bytes where {len(header) - start} are left"
        )
    return header[start : start + size], start + size


def _decode_entries(ext: bytes) -> dict[str, str]:
    fields: dict[str, str] = {}
    position, end = 0, len(ext)
    key_size_at, value_size_at = _SHORT.unpack_from, _INT.unpack_from
    while position < end:
        (key_size,) = key_size_at(ext, position)
        key_end = position + 2 + key_size
        if not 0 <= key_size <= end - position - 6:
            raise RemoteProtocolError(f"binary header: ext key of {key_size} bytes")
        (value_size,) = value_size_at(ext, key_end)
        start = key_end + 4
        if not 0 <= value_size <= end - start:
            raise RemoteProtocolError(f"binary header: ext value of {value_size} bytes")
        if key_size and value_size:  # a zero-length string decodes to null, that is, to absent
            name = ext[position + 2 : key_end].decode("utf-8", "replace")
            fields[name] = ext[start : start + value_size].decode("utf-8", "replace")
        position = start + value_size
    return fields
