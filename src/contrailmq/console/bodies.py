"""Bodies of messages as people read them: compression taken off, then text, JSON, or bytes.

Nothing here runs what a body says: no unpickling, no Java objects.  Every step is bounded, and
each is named in ``layers``, so that a reader knows what they see.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable
from typing import Any, Final

import lz4.frame
import msgspec
import zstandard

from contrailmq.console.msgpack import read_msgpack
from contrailmq.console.protobuf import read_protobuf
from contrailmq.console.settings import PREVIEW_SIZE
from contrailmq.errors import ContrailError
from contrailmq.protocol.compression import compression_of
from contrailmq.protocol.message import Record
from contrailmq.protocol.sysflag import COMPRESSED

OPENED_SIZE_MAX: Final = 4 * 1024 * 1024
LAYERS_MAX: Final = 3
HEX_SIZE: Final = 4096
LINE_LENGTH: Final = 160
_MAGICS: Final = {
    b"\x1f\x8b": "gzip",
    b"\x04\x22\x4d\x18": "lz4",
    b"\x28\xb5\x2f\xfd": "zstd",
}
_ZLIB_STARTS: Final = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")


def opened(record: Record) -> tuple[bytes, list[str]]:
    """The body without its compression, the message's own and that of the sender's program."""
    body, layers = record.body, []
    if record.sys_flag & COMPRESSED:
        try:
            body = record.payload(OPENED_SIZE_MAX)
            layers.append(compression_of(record.sys_flag).name.lower())
        except ContrailError as error:
            return body, [f"cannot be opened: {error}"]
    for _ in range(LAYERS_MAX):
        kind = _compression(body)
        inner = _unpack(kind, body) if kind else None
        if inner is None:
            break
        body = inner
        layers.append(str(kind))
    return body, layers


def shown(record: Record, *, size: int = PREVIEW_SIZE) -> dict[str, Any]:
    """All readings of a body that fit it, the likeliest first, and what was cut."""
    body, layers = opened(record)
    views: list[dict[str, Any]] = []
    text = _text(body)
    if text is not None:
        if is_json(body):
            views.append({"kind": "json", "text": text[:size]})
        views.append({"kind": "text", "text": text[:size]})
    else:
        for kind, read in (("msgpack", read_msgpack), ("protobuf", read_protobuf)):
            found = read(body[:PREVIEW_SIZE])
            if found is not None:
                views.append({"kind": kind, "text": found})
    views.append({"kind": "hex", "text": hex_dump(body[:HEX_SIZE])})
    return {
        "size": len(body),
        "stored": len(record.body),
        "layers": layers,
        "views": views,
        "cut": len(body) > size,
        "shown": min(len(body), size),
    }


def line(record: Record) -> str:
    """The beginning of a body on one line."""
    body, layers = opened(record)
    text = _text(body[: 4 * LINE_LENGTH], is_cut=len(body) > 4 * LINE_LENGTH)
    if text is None:
        start = body[:24].hex(" ")
        return f"{start} …" if len(body) > 24 else start
    joined = " ".join(text.split())
    mark = f"[{layers[-1]}] " if layers else ""
    return mark + (joined if len(joined) <= LINE_LENGTH else joined[: LINE_LENGTH - 1] + "…")


def is_json(body: bytes) -> bool:
    """Whether a body is a JSON object or array."""
    if body.lstrip()[:1] not in (b"{", b"["):
        return False
    try:
        msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
    return True


def hex_dump(body: bytes) -> str:
    """Offset, sixteen bytes, and what of them is printable, line by line."""
    lines = []
    for start in range(0, len(body), 16):
        row = body[start : start + 16]
        printable = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{start:06x}  {row[:8].hex(' '):<23}  {row[8:].hex(' '):<23}  {printable}")
    return "\n".join(lines)


def _text(body: bytes, *, is_cut: bool = False) -> str | None:
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        if not is_cut or error.start < len(body) - 3:
            return None
        text = body[: error.start].decode()
    controls = sum(char < " " and char not in "\r\n\t" for char in text)
    return None if controls * 10 > len(text) else text


def _compression(body: bytes) -> str | None:
    for magic, kind in _MAGICS.items():
        if body.startswith(magic):
            return kind
    return "zlib" if body.startswith(_ZLIB_STARTS) else None


def _unpack(kind: str, body: bytes) -> bytes | None:
    try:
        inner = _UNPACKERS[kind](body)
    except (OSError, EOFError, zlib.error, RuntimeError, zstandard.ZstdError):
        return None
    return inner if len(inner) <= OPENED_SIZE_MAX else None


def _gunzip(body: bytes) -> bytes:
    with gzip.GzipFile(fileobj=io.BytesIO(body)) as source:
        return source.read(OPENED_SIZE_MAX + 1)


def _inflate(body: bytes) -> bytes:
    inflater = zlib.decompressobj()
    inner = inflater.decompress(body, OPENED_SIZE_MAX + 1)
    if not inflater.eof and len(inner) <= OPENED_SIZE_MAX:
        raise zlib.error("cut off")
    return inner


def _unlz4(body: bytes) -> bytes:
    inner: bytes = lz4.frame.LZ4FrameDecompressor().decompress(body, max_length=OPENED_SIZE_MAX + 1)
    return inner


def _unzstd(body: bytes) -> bytes:
    with zstandard.ZstdDecompressor().stream_reader(body) as source:
        return source.read(OPENED_SIZE_MAX + 1)


_UNPACKERS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "gzip": _gunzip,
    "zlib": _inflate,
    "lz4": _unlz4,
    "zstd": _unzstd,
}
