"""Tables of names, packed so that a compiled loop can look a name up, and what the names mean.

This module is never compiled.  Compiled modules take ``find`` and the meanings from ``names.pxd``
under the same names; the plain build takes these.

A table is a string of bytes.  It begins with 256 places of two bytes, and which of them is a
name's follows from its first byte and its size.  At that place stand all its names, each after its
size and its meaning (a byte each), and then a zero.  So a lookup compares few names, usually none
or one, and it always compares the whole name.

The tables themselves are made by the user of a loop, from the declarations it works with: the
headers of requests, the properties a broker acts on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from contrailmq._native import raw

SIZE_MAX = 255
SPREAD = 31  # keeps names apart that have the same first byte

# Not in the table.
UNKNOWN = 0

# What a property of a message means to the send lanes.
UNIQUE_KEY = 1
WAIT = 2
ACTED_ON = 3  # a broker acts on it, so the ordinary handler takes the message

# What a field of a request, or a gap in an answer, holds.
GROUP = 1
TOPIC = 2
QUEUE_ID = 3
SYS_FLAG = 4
BORN_MS = 5
FLAG = 6
PROPERTIES = 7
RECONSUME_TIMES = 8
UNIT_MODE = 9
BATCH = 10
QUEUE_OFFSET = 11
COUNT = 12
COMMIT_OFFSET = 13
SUBSCRIPTION = 14
SUB_VERSION = 15
EXPRESSION_TYPE = 16
NEXT_OFFSET = 17
MIN_OFFSET = 18
MAX_OFFSET = 19
TRANSACTION_ID = 20
MESSAGE_IDS = 21
OPAQUE = 22
FIELDS_SIZE = 23
END = 24
MEANINGS = 25  # how many there are


def pack(meanings: Mapping[str, int]) -> bytes:
    """Return the table of these names."""
    by_slot: dict[int, bytes] = {}
    for name, meaning in meanings.items():
        text = name.encode()
        if not 0 < len(text) <= SIZE_MAX or not UNKNOWN < meaning < 256:
            raise ValueError(f"{name!r} cannot be packed with the meaning {meaning}")
        entry = bytes((len(text), meaning)) + text
        slot = (text[0] + SPREAD * len(text)) & 255
        by_slot[slot] = by_slot.get(slot, b"") + entry
    places = [2 * 256] * 256  # an empty list: just its zero
    lists = bytearray(1)
    for slot, entries in by_slot.items():
        places[slot] = 2 * 256 + len(lists)
        lists += entries + b"\0"
    return b"".join(place.to_bytes(2, "big") for place in places) + lists


def find(table: Any, text: Any, at: int, size: int) -> int:
    """Return what ``text[at:at + size]`` means, or ``UNKNOWN``."""
    if size == 0:
        return UNKNOWN
    place = raw.get_u16(table, 2 * ((text[at] + SPREAD * size) & 255))
    while table[place] != 0:
        if table[place] == size and raw.same_bytes(table, place + 2, text, at, size):
            return int(table[place + 1])
        place += 2 + table[place]
    return UNKNOWN
