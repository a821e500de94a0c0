"""Answers as the lanes write them: cut out of what the ordinary encoder makes of a sample.

A sample is the answer an ordinary handler would give, with a mark in place of each value that
differs from answer to answer.  What lies between the marks is constant, so the lanes repeat
neither the names of fields nor their order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from contrailmq._native import names
from contrailmq._native.lanes.answers import AnswerParts
from contrailmq.protocol.command import Command, Serialization

OPAQUE_MARK: Final = 1_234_567_890
_REMARK_AT: Final = 13  # in a binary header, before its remark and its fields: code, language, ...


def mark(meaning: int) -> str:
    """Return the value that stands for this gap in a sample."""
    return f"@{meaning}@"


def cut(sample: Command, meanings: Mapping[str, int]) -> AnswerParts:
    """Cut a sample at its marks; ``meanings`` has those of the fields that are gaps.

    The sample is encoded as its ``serialization`` says.
    """
    sample.opaque = OPAQUE_MARK
    for field, meaning in meanings.items():
        sample.fields[field] = mark(meaning)
    is_binary = sample.serialization is Serialization.ROCKETMQ
    text = sample.encode_head()[8:]
    gaps = {_binary(mark(m)) if is_binary else mark(m).encode(): m for m in meanings.values()}
    gaps[OPAQUE_MARK.to_bytes(4, "big") if is_binary else b"%d" % OPAQUE_MARK] = names.OPAQUE
    places = {_place(text, gap): (len(gap), meaning) for gap, meaning in gaps.items()}
    if is_binary:
        remark_size = int.from_bytes(text[_REMARK_AT : _REMARK_AT + 4], "big")
        places[_REMARK_AT + 4 + remark_size] = (4, names.FIELDS_SIZE)
    parts, end = [], 0
    for place in sorted(places):
        size, meaning = places[place]
        parts.append((text[end:place], meaning))
        end = place + size
    return AnswerParts([*parts, (text[end:], names.END)], is_binary)


def _binary(value: str) -> bytes:
    return len(value).to_bytes(4, "big") + value.encode()


def _place(text: bytes, gap: bytes) -> int:
    if text.count(gap) != 1:
        raise ValueError(f"{gap!r} is {text.count(gap)} times in {text!r}")
    return text.index(gap)
