"""Values that cross the border of the store: what is put, what comes back."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from contrailmq._native.sql import SqlProgram


@dataclass(slots=True)
class NewMessage:
    """A message as the broker hands it over; the store adds place, time and checksum.

    ``properties`` is the stored string, already encoded, and ``suffix`` more of it, which the store
    puts after it with a separator between them; hosts are 4 or 16 bytes of address and
    four of port, and the IPv6 bits of ``sys_flag`` are set by the store from their lengths.
    ``wait=False`` is the WAIT property: this send does not wait for the disk.
    """

    topic: str
    queue_id: int
    body: bytes | bytearray | memoryview
    properties: bytes = b""
    flag: int = 0
    sys_flag: int = 0
    born_ms: int = 0
    born_host: bytes = b"\x7f\x00\x00\x01\x00\x00\x00\x00"
    store_host: bytes = b"\x7f\x00\x00\x01\x00\x00\x00\x00"
    reconsume_times: int = 0
    prepared_offset: int = 0
    wait: bool = True
    suffix: bytes = b""


class Appended(NamedTuple):
    """Where a record went: its place in the log, in its queue, and when."""

    offset: int
    end_offset: int
    queue_offset: int
    store_ms: int
    size: int


class BatchAppended(NamedTuple):
    """Where the records of a batch went: back to back in the log and in one queue."""

    offsets: list[int]
    end_offset: int
    queue_offset: int
    store_ms: int


class GetStatus(enum.Enum):
    """Outcome of a read; the names are those of the original."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


@dataclass(slots=True)
class GetResult:
    """What a pull got: ``records`` are raw records of the log, one after another."""

    status: GetStatus
    next_offset: int
    min_offset: int
    max_offset: int
    records: bytes | bytearray = b""
    count: int = 0
    suggest_slave: bool = False


class KeyMatches(NamedTuple):
    """Commit-log offsets whose key hash fits, in log order, and how fresh the index is."""

    offsets: list[int]
    last_update_ms: int
    last_update_offset: int


class QueueExt(NamedTuple):
    """A unit of the consume-queue extension."""

    tags_code: int
    store_ms: int
    bitmap: bytes


class Matcher(Protocol):
    """A consumer's filter. ``tag_codes`` None lets every unit pass to ``matches``.

    With ``record_matters`` False the tag codes alone decide and ``matches`` is never called.
    """

    @property
    def tag_codes(self) -> frozenset[int] | None:
        """Hash codes of the tags asked for, or None for all."""
        ...

    @property
    def record_matters(self) -> bool:
        """Whether ``matches`` has to see the record."""
        ...

    @property
    def program(self) -> SqlProgram | None:
        """What ``matches`` says, for compiled loops; None when only ``matches`` knows."""
        ...

    def matches(self, record: memoryview) -> bool:
        """Whether the consumer wants this record."""
        ...

    def may_match(self, ext: QueueExt) -> bool:
        """Whether the bit map of the extension lets the record pass; no false negatives."""
        ...
