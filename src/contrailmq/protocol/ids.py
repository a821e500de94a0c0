"""Message ids, and the hashes over Java strings that stand in queues and indexes.

* An *offset id* names a place: store host (IP and port) and commit-log offset.
* A *unique key* is made by the producer before sending: IP, process, a stable random number,
  milliseconds since the month began (in local time, as the tools that read it expect), counter.

Both are upper-case hexadecimal: 32 characters with an IPv4 address, 56 with IPv6.
"""

from __future__ import annotations

import datetime
import random
from typing import Final, NamedTuple, Protocol

from contrailmq._native import hashing
from contrailmq.errors import RemoteProtocolError
from contrailmq.protocol.hosts import HOST_SIZE_V4, HOST_SIZE_V6

ID_SIZE_V4: Final = 32
ID_SIZE_V6: Final = 56
_OFFSET_SIZE: Final = 8


def java_hash(text: str) -> int:
    """``String.hashCode``: over UTF-16 units, as a signed 32-bit number."""
    return hashing.java_hash_of(text)


def tags_code(tags: str | None) -> int:
    """What a consume queue holds for a message's TAGS: the hash, or 0 without tags."""
    return hashing.java_hash_of(tags) if tags else 0


def index_key_hash(key: str) -> int:
    """The non-negative hash an index file holds for ``topic#key``."""
    # IndexFile.indexKeyHashMethod: abs of Integer.MIN_VALUE is still negative, and becomes 0.
    value = abs(hashing.java_hash_of(key))
    return 0 if value == 1 << 31 else value


def offset_message_id(store_host: bytes, offset: int) -> str:
    """The id of the record at a commit-log offset of a broker."""
    return (store_host + offset.to_bytes(_OFFSET_SIZE, "big", signed=True)).hex().upper()


def parse_offset_message_id(text: str) -> tuple[bytes, int]:
    """Store host bytes and commit-log offset of an offset id."""
    raw = _unhex(text)
    host, offset = raw[:-_OFFSET_SIZE], raw[-_OFFSET_SIZE:]
    return host, int.from_bytes(offset, "big", signed=True)


def segment_name(offset: int) -> str:
    """The file name of the segment that begins at an offset; names sort as offsets do."""
    return f"{offset:020d}"


class UniqueKey(NamedTuple):
    """The parts of a unique key."""

    ip: bytes
    pid: int
    salt: int
    month_ms: int
    counter: int


def parse_unique_key(text: str) -> UniqueKey:
    """Take a unique key apart; any 32 or 56 hexadecimal characters are one."""
    raw = _unhex(text)
    tail = raw[-12:]
    return UniqueKey(
        ip=raw[:-12],
        pid=int.from_bytes(tail[:2], "big"),
        salt=int.from_bytes(tail[2:6], "big"),
        month_ms=int.from_bytes(tail[6:10], "big"),
        counter=int.from_bytes(tail[10:], "big"),
    )


class _Clock(Protocol):
    def now_ms(self) -> int: ...


class UniqueIds:
    """Makes unique keys; one a producer process is enough, and two do not collide."""

    __slots__ = (
        "_clock",
        "_counter",
        "_month_end_ms",
        "_month_start_ms",
        "_prefix",
        "_stamp",
        "_stamp_ms",
        "_zone",
    )

    def __init__(
        self,
        ip: bytes,
        *,
        clock: _Clock,
        pid: int,
        rng: random.Random,
        zone: datetime.tzinfo | None = None,
    ) -> None:
        if len(ip) not in (4, 16):
            raise ValueError(f"address of {len(ip)} bytes, must be 4 or 16")
        salt = rng.getrandbits(32)
        self._prefix = (ip + (pid & 0xFFFF).to_bytes(2, "big") + salt.to_bytes(4, "big")).hex()
        self._prefix = self._prefix.upper()
        self._clock = clock
        self._zone = zone
        self._counter = 0
        self._month_start_ms = self._month_end_ms = 0
        self._stamp, self._stamp_ms = "", -1  # all before the counter, as of this millisecond

    def next(self) -> str:
        """A key that this process has not given before (65,536 a millisecond)."""
        return self.at(self._clock.now_ms())

    def at(self, now_ms: int) -> str:
        """``next`` for one who has just looked at the clock."""
        if now_ms != self._stamp_ms:
            self._enter_ms(now_ms)
        counter = self._counter
        self._counter = (counter + 1) & 0xFFFF
        return f"{self._stamp}{counter:04X}"

    def many(self, now_ms: int, count: int) -> list[str]:
        """The same, ``count`` times."""
        if now_ms != self._stamp_ms:
            self._enter_ms(now_ms)
        stamp, first = self._stamp, self._counter
        self._counter = (first + count) & 0xFFFF
        return [f"{stamp}{number & 0xFFFF:04X}" for number in range(first, first + count)]

    def _enter_ms(self, now_ms: int) -> None:
        if not self._month_start_ms <= now_ms < self._month_end_ms:
            self._enter_month(now_ms)
        self._stamp = f"{self._prefix}{now_ms - self._month_start_ms & 0xFFFFFFFF:08X}"
        self._stamp_ms = now_ms

    def _enter_month(self, now_ms: int) -> None:
        zone = self._zone
        now = datetime.datetime.fromtimestamp(now_ms / 1000, datetime.UTC).astimezone(zone)
        year, month = (now.year + 1, 1) if now.month == 12 else (now.year, now.month + 1)
        self._month_start_ms = _first_of_month_ms(now.year, now.month, zone)
        self._month_end_ms = _first_of_month_ms(year, month, zone)


def _first_of_month_ms(year: int, month: int, zone: datetime.tzinfo | None) -> int:
    # A zone of None means the machine's: a naive datetime is read that way.
    return int(datetime.datetime(year, month, 1, tzinfo=zone).timestamp() * 1000)


def _unhex(text: str) -> bytes:
    if len(text) not in (ID_SIZE_V4, ID_SIZE_V6):
        raise RemoteProtocolError(f"message id of {len(text)} characters, must be 32 or 56")
    try:
        raw = bytes.fromhex(text)
    except ValueError as error:
        raise RemoteProtocolError(f"message id {text!r} is not hexadecimal") from error
    if len(raw) - _OFFSET_SIZE not in (HOST_SIZE_V4, HOST_SIZE_V6):
        raise RemoteProtocolError(f"message id {text!r} is not hexadecimal")
    return raw
