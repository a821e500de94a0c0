"""Light queues (LMQ): queues of one queue each that hold messages of ordinary topics.

A message whose property INNER_MULTI_DISPATCH names light queues (``%LMQ%a,%LMQ%b``) gets a unit in
each of them, besides the one in its own queue.  Which offset it has in which is part of the record:
INNER_MULTI_QUEUE_OFFSET, one number per name, in the same order.  So recovery makes light queues
again from the log, as any other.

A name that is no light queue's gets no number, and a list with such names alone no numbers at all.
Mixed lists never come this far: the dispatch of 5.2.0 stops at them for ever.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Final

from contrailmq._native.store.queues import QueueWriter
from contrailmq.protocol.names import is_lmq, is_retry_or_dlq, is_system_topic
from contrailmq.protocol.properties import (
    PROPERTY_INNER_MULTI_DISPATCH,
    PROPERTY_INNER_MULTI_QUEUE_OFFSET,
    decode_properties,
    encode_properties,
)
from contrailmq.store.types import NewMessage

SEPARATOR: Final = ","
NAME_SIZE_MAX: Final = 255  # of a folder
_DIGITS_MAX: Final = 18
_MARK: Final = PROPERTY_INNER_MULTI_DISPATCH.encode()


def has_lights(topic: str) -> bool:
    """Whether messages of a topic can be in light queues: not retries, nor the system's own."""
    return not is_retry_or_dlq(topic) and not is_system_topic(topic)


def is_folder(name: str) -> bool:
    """Whether a light queue of this name can be kept; others get a number and no queue."""
    return "/" not in name and "\0" not in name and len(name.encode()) <= NAME_SIZE_MAX


def light_size_max(message: NewMessage) -> int:
    """The most bytes that the record of a message with its numbers can have."""
    numbers = 20 * (message.properties.count(SEPARATOR.encode()) + 1)
    return len(message.body) + len(message.properties) + len(message.topic) + numbers + 1024


class Lights:
    """Numbers messages in light queues, and finds the queues. Owned by the loop."""

    def __init__(self, find: Callable[[str], QueueWriter]) -> None:
        self._find = find

    def numbered(self, message: NewMessage) -> tuple[NewMessage, list[QueueWriter]]:
        """The message with its numbers, and the queues that count one more once it is stored."""
        if _MARK not in message.properties or not has_lights(message.topic):
            return message, []
        properties = decode_properties(message.properties)
        properties.update(decode_properties(message.suffix))
        properties.pop(PROPERTY_INNER_MULTI_QUEUE_OFFSET, None)
        names = properties.get(PROPERTY_INNER_MULTI_DISPATCH, "").split(SEPARATOR)
        queues: dict[str, QueueWriter] = {}
        if all(map(is_lmq, names)):
            queues = {name: self._find(name) for name in names if is_folder(name)}
            numbers = [str(queues[n].next_offset) if n in queues else "0" for n in names]
            properties[PROPERTY_INNER_MULTI_QUEUE_OFFSET] = SEPARATOR.join(numbers)
        changed = dataclasses.replace(message, properties=encode_properties(properties), suffix=b"")
        return changed, list(queues.values())

    def queues(self, names: bytes, offsets: bytes) -> list[tuple[QueueWriter, int]]:
        """The light queues of a record and its offsets there; nothing where lists do not fit."""
        wanted = names.decode("utf-8", "replace").split(SEPARATOR)
        places = offsets.split(SEPARATOR.encode())
        if len(wanted) != len(places):
            return []
        return [
            (self._find(name), int(place))
            for name, place in dict(zip(wanted, places, strict=True)).items()
            if is_lmq(name) and is_folder(name) and _is_number(place)
        ]


def _is_number(place: bytes) -> bool:
    return place.isdigit() and len(place) <= _DIGITS_MAX
