"""The header fields of requests, read once for all lanes.

``SendFields`` reads a SEND_MESSAGE_V2 or SEND_BATCH_MESSAGE, ``PullFields`` a pull.  Both look
names up in a table that is made from the header's own declaration, and compare them whole.
``read`` returns False for a header that is not for a lane: a field it needs is missing or no
number, or has a value only the ordinary handler knows what to do about.  Unknown fields are
ignored, as everywhere.

``SendProperties`` reads the properties of a message.  The lanes and the ordinary handler share it.
"""

from __future__ import annotations

from typing import Any

from contrailmq._native import names, raw, text
from contrailmq._native.net.request import RequestScan

Bytes = bytes | bytearray | memoryview

_ALLOWED_SYS_FLAGS = 0x701  # compressed, and how
_INT_MAX = 0x7FFFFFFF
_COUNT_MAX = 32767
_KEY_MAX = 255
_MISSING = -0x7FFFFFFFFFFFFFFF  # what a text that is no number is, too

# What SendProperties.read finds, as bits.
HAS_KEY = 1
IS_ACTED_ON = 2  # a broker acts on one of the names
NO_WAIT = 4
IS_ODD = 8  # a separator out of place, a name or a value that is empty
IS_KEY_ODD = 16  # the key is there twice, or too long, or JSON would write it in another way
_HAS_KEY = 1
_IS_ACTED_ON = 2
_NO_WAIT = 4
_IS_ODD = 8
_IS_KEY_ODD = 16


class SendFields:
    """The fields of the last send that was read.

    ``topic`` and ``properties`` are numbers of fields of the scan.
    """

    def __init__(self, table: bytes) -> None:
        self._table = table
        self._table_address = raw.at_address(table)
        self.topic = -1
        self.properties = -1
        self.queue_id = -1
        self.sys_flag = 0
        self.flag = 0
        self.born_ms = 0
        self.is_batch = False

    def read(self, scan: RequestScan, data: Any) -> bool:
        """Read the header of a send; False if it is not for a lane."""
        topic = properties = group = -1
        queue_id = sys_flag = flag = born_ms = _MISSING
        self.is_batch = False
        for number in range(scan.field_count):
            at = scan.value_at[number]
            size = scan.value_size[number]
            meaning = names.find(
                self._table_address, data, scan.key_at[number], scan.key_size[number]
            )
            if meaning == names.TOPIC:
                topic = number
            elif meaning == names.QUEUE_ID:
                queue_id = scan.number_at(data, at, size)
            elif meaning == names.PROPERTIES:
                properties = number
            elif meaning == names.SYS_FLAG:
                sys_flag = scan.number_at(data, at, size)
            elif meaning == names.BORN_MS:
                born_ms = scan.number_at(data, at, size)
            elif meaning == names.FLAG:
                flag = scan.number_at(data, at, size)
            elif meaning == names.GROUP:
                group = number
            elif meaning == names.RECONSUME_TIMES:
                if not text.is_word(data, at, size, b"0"):
                    return False
            elif meaning == names.UNIT_MODE:
                if not text.is_word(data, at, size, b"false"):
                    return False
            elif meaning == names.BATCH:
                self.is_batch = text.is_word(data, at, size, b"true")
                if not self.is_batch and not text.is_word(data, at, size, b"false"):
                    return False
        if topic < 0 or properties < 0 or group < 0 or queue_id < 0:
            return False
        # A field that is missing or no number is far below any of these.
        if sys_flag < 0 or sys_flag & ~_ALLOWED_SYS_FLAGS or born_ms < 0:
            return False
        if flag > _INT_MAX or flag < -_INT_MAX - 1:
            return False
        self.topic = topic
        self.properties = properties
        self.queue_id = queue_id
        self.sys_flag = sys_flag
        self.flag = flag
        self.born_ms = born_ms
        return True


class PullFields:
    """The fields of the last pull that was read.

    ``group``, ``topic``, ``subscription``, ``version`` and ``kind`` are numbers of fields of the
    scan, the last three of them -1 where there is no such field.
    """

    def __init__(self, table: bytes) -> None:
        self._table = table
        self._table_address = raw.at_address(table)
        self.group = -1
        self.topic = -1
        self.subscription = -1
        self.version = -1
        self.kind = -1
        self.queue_id = -1
        self.offset = -1
        self.count = -1
        self.flags = -1
        self.commit = -1

    def read(self, scan: RequestScan, data: Any) -> bool:
        """Read the header of a pull; False if it is not for the lane."""
        group = topic = subscription = version = kind = -1
        queue_id = offset = count = flags = commit = -1
        for number in range(scan.field_count):
            at = scan.value_at[number]
            size = scan.value_size[number]
            meaning = names.find(
                self._table_address, data, scan.key_at[number], scan.key_size[number]
            )
            if meaning == names.QUEUE_ID:
                queue_id = scan.number_at(data, at, size)
            elif meaning == names.SYS_FLAG:
                flags = scan.number_at(data, at, size)
            elif meaning == names.QUEUE_OFFSET:
                offset = scan.number_at(data, at, size)
            elif meaning == names.COUNT:
                count = scan.number_at(data, at, size)
            elif meaning == names.COMMIT_OFFSET:
                commit = scan.number_at(data, at, size)
            elif meaning == names.SUB_VERSION:
                version = number
            elif meaning == names.SUBSCRIPTION:
                subscription = number
            elif meaning == names.GROUP:
                group = number
            elif meaning == names.EXPRESSION_TYPE:
                kind = number
            elif meaning == names.TOPIC:
                topic = number
        if queue_id < 0 or offset < 0 or count < 1 or count > _COUNT_MAX or flags < 0:
            return False
        if group < 0 or topic < 0:
            return False
        self.group = group
        self.topic = topic
        self.subscription = subscription
        self.version = version
        self.kind = kind
        self.queue_id = queue_id
        self.offset = offset
        self.count = count
        self.flags = flags
        self.commit = commit
        return True


class SendProperties:
    """The properties of the last message that was read: where its unique key is.

    A name that occurs twice has its last value, as everywhere.
    """

    def __init__(self, table: bytes) -> None:
        self._table = table
        self._table_address = raw.at_address(table)
        self.key_at = 0
        self.key_size = 0

    def look(self, data: Bytes) -> int:
        """Read a whole property string; returns the bits above."""
        if len(data) == 0:
            return 0
        return self.read(raw.at_address(data), 0, len(data))

    def key(self, data: Bytes) -> bytes:
        """Return the unique key of the string that was just read."""
        return bytes(data[self.key_at : self.key_at + self.key_size])

    def read(self, data: Any, at: int, end: int) -> int:
        """Read the property string at ``data[at:end]``; returns the bits above."""
        found = 0
        while at < end:
            pair = text.pair_at(data, at, end)
            at = pair.end + 1
            if pair.name_size <= 0:
                found |= _IS_ODD
                continue
            meaning = names.find(self._table_address, data, pair.name, pair.name_size)
            if (
                pair.value_size == 0
                or raw.find_byte(data, pair.value, pair.end, text.NAME_END) >= 0
            ):
                found |= _IS_ODD
            if meaning == names.ACTED_ON:
                found |= _IS_ACTED_ON
            elif pair.value_size == 0:
                continue  # a pair without a value is none
            elif meaning == names.UNIQUE_KEY:
                self.key_at = pair.value
                self.key_size = pair.value_size
                if found & _HAS_KEY or not is_plain(data, pair.value, pair.end):
                    found |= _IS_KEY_ODD
                found |= _HAS_KEY
            elif meaning == names.WAIT:
                found &= ~_NO_WAIT
                if text.is_word(data, pair.value, pair.value_size, b"false"):
                    found |= _NO_WAIT
        return found


def is_plain(data: Any, at: int, end: int) -> bool:
    """Whether a key can be answered as it is: letters and digits, without an escape in JSON."""
    if end - at > _KEY_MAX:
        return False
    for place in range(at, end):
        if data[place] < ord("0") or data[place] > ord("z") or data[place] == ord("\\"):
            return False
    return True
