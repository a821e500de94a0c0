"""Answers written from constant bytes and a few values, without an object per answer.

``AnswerParts`` is one kind of answer: its header as the ordinary encoder writes it, cut into
stretches of constant bytes with gaps between them.  The user of a lane cuts it out of a real
encoding, so that neither the order of fields nor their names are repeated here.

``AnswerWriter`` writes answers one after another into a buffer.  The caller sets the values of the
gaps (``numbers`` by meaning, ``key`` and ``add_id`` for the texts), and then calls ``write``.  The
caller also sees to it that there is room: ``rest`` bytes are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from contrailmq._native import names, raw, text

Bytes = bytes | bytearray | memoryview

_PARTS_MAX = 16
_HEAD_SIZE = 8  # sizes of the frame and of its header
_BINARY = 0x1000000


class AnswerParts:
    """The constant stretches of an answer's header, and what follows each of them.

    The last stretch is followed by ``END``.  Texts and numbers of a binary header have their size
    before them.  ``size`` is that of all constant bytes together.
    """

    def __init__(self, parts: Sequence[tuple[bytes, int]], is_binary: bool) -> None:
        if not 0 < len(parts) <= _PARTS_MAX or parts[len(parts) - 1][1] != names.END:
            raise ValueError(f"an answer of {len(parts)} parts: 1 to {_PARTS_MAX}, the last an END")
        self.constant = b"".join(stretch for stretch, _ in parts) or bytes(1)
        self.address = raw.at_address(self.constant)
        self.size = len(self.constant)
        self.is_binary = is_binary
        self._ends = memoryview(bytearray(8 * _PARTS_MAX)).cast("q")
        self._meanings = memoryview(bytearray(8 * _PARTS_MAX)).cast("q")
        self.ends = raw.numbers_at(self._ends)
        self.meanings = raw.numbers_at(self._meanings)
        end = 0
        for number, (stretch, meaning) in enumerate(parts):
            end += len(stretch)
            self.ends[number] = end
            self.meanings[number] = meaning


class AnswerWriter:
    """Writes answers into a buffer of its own; ``end`` is where they end."""

    def __init__(self, size: int, id_prefix: bytes) -> None:
        self.size = size
        self.end = 0
        self._numbers = memoryview(bytearray(8 * names.MEANINGS)).cast("q")
        self.numbers = raw.numbers_at(self._numbers)
        self._out = bytearray(size)
        self.address = raw.at_address(self._out)
        self._ids = bytearray(size)
        self._ids_address = raw.at_address(self._ids)
        self._ids_size = 0
        self._key_size = 0
        self._id_prefix = id_prefix or bytes(1)
        self._id_prefix_address = raw.at_address(self._id_prefix)
        self._id_prefix_size = len(id_prefix)
        self.id_size = len(id_prefix) + text.HEX_64_SIZE + 1
        self.key(self._ids_address, 0, 0)

    def rest(self) -> int:
        """Return how many bytes are left."""
        return self.size - self.end

    def take(self) -> bytes:
        """Return the answers written since the last call."""
        out = raw.copy_of(self.address, 0, self.end)
        self.end = 0
        return out

    def key(self, data: Any, at: int, size: int) -> None:
        """Answer with this transaction id; its bytes are read by the next ``write``."""
        self._key = data
        self._key_at = at
        self._key_size = size

    def add_id(self, offset: int) -> None:
        """Answer with the id of the message at this log offset, after those added before."""
        out = self._ids_address
        at = self._ids_size
        if at:
            out[at] = ord(",")
            at += 1
        raw.copy_bytes(out, at, self._id_prefix_address, 0, self._id_prefix_size)
        at += self._id_prefix_size
        self._ids_size = text.put_hex_64(out, at, offset)

    def write(self, parts: AnswerParts, body_size: int) -> None:
        """Write the head of an answer whose body, of this size, the caller puts after it."""
        out = self.address
        start = self.end
        at = start + _HEAD_SIZE
        fields_at = before = number = 0
        is_binary = parts.is_binary
        while True:
            size = parts.ends[number] - before
            raw.copy_bytes(out, at, parts.address, before, size)
            at += size
            before += size
            meaning = parts.meanings[number]
            number += 1
            if meaning == names.END:
                break
            value_at = at
            if is_binary:
                at += 4
            if meaning == names.TRANSACTION_ID:
                raw.copy_bytes(out, at, self._key, self._key_at, self._key_size)
                at += self._key_size
            elif meaning == names.MESSAGE_IDS:
                raw.copy_bytes(out, at, self._ids_address, 0, self._ids_size)
                at += self._ids_size
                self._ids_size = 0
            elif meaning == names.FIELDS_SIZE:
                fields_at = value_at
            elif meaning == names.OPAQUE and is_binary:
                raw.put_u32(out, value_at, self.numbers[meaning])
                continue
            else:
                at = text.put_number(out, at, self.numbers[meaning])
            if is_binary:
                raw.put_u32(out, value_at, at - value_at - 4)
        header_size = at - start - _HEAD_SIZE
        raw.put_u32(out, start, at - start - 4 + body_size)
        if is_binary:
            raw.put_u32(out, fields_at, at - fields_at - 4)
            header_size |= _BINARY
        raw.put_u32(out, start + 4, header_size)
        self.end = at
