# cython: annotation_typing=False
# ruff: noqa: ERA001
"""A record of the timer topic: its parts, when it is due, and its properties once delivered."""

from __future__ import annotations

from typing import Any

from contrailmq._native import raw, record, text

_TEXT_SIZE = 33280  # of the properties, and what delivery adds
_TEXT_MAX = 32767
_NUMBER_MAX = 1 << 60
_INT_MAX = 0x7FFFFFFF
_LETTER_I = 73
_LETTER_R = 82
_LETTER_T = 84
_LETTER_U = 85
_TIMER_NAME = 16  # TIMER_ENQUEUE_MS, TIMER_DEQUEUE_MS and TIMER_ROLL_TIMES are equally long


class TimerRecord:
    """The record looked at last. Positions are in the view that was given to ``scan``."""

    def __init__(self) -> None:
        self.out = bytearray(_TEXT_SIZE)
        self.out_address = raw.at_address(self.out)
        self._enqueue_ms = b"TIMER_ENQUEUE_MS\x01"
        self._dequeue_ms = b"TIMER_DEQUEUE_MS\x01"
        self._roll_times = b"TIMER_ROLL_TIMES\x01"
        self.clear()

    def clear(self) -> None:
        """Forget what was found."""
        self.flag = self.sys_flag = self.reconsume = 0
        self.born_ms = self.store_ms = self.queue_offset = 0
        self.born = self.born_size = self.store = self.store_size = 0
        self.body = self.body_size = self.text = self.text_size = 0
        self.due_ms = self.out_ms = self.queue_id = -1
        self.topic = self.topic_size = self.unique = self.unique_size = 0
        self.cancel = self.cancel_size = 0
        self.rolls = 0
        self.is_light = False
        self.delay_sec = self.delay_ms = self.deliver_ms = -1

    def scan(self, data: Any, at: int, size: int, precision_ms: int) -> bool:
        """Find the parts of a record; False when it is no timer message."""
        self.clear()
        spans = record.locate(data, at, size)
        if spans.size <= 0:
            return False
        flags = record.sys_flag(data, at)
        moved = at + record.moved(flags)
        self.flag = raw.get_i32(data, at + record.FLAG_AT)
        self.queue_offset = record.queue_offset(data, at)
        self.sys_flag = flags
        self.born_ms = raw.get_i64(data, at + record.BORN_MS_AT)
        self.store_ms = record.store_ms(data, at)
        self.born = at + record.BORN_HOST_AT
        self.born_size = record.born_host_size(flags)
        self.store_size = record.store_host_size(flags)
        self.store = moved + record.RECONSUME_TIMES_AT - self.store_size
        self.reconsume = raw.get_i32(data, moved + record.RECONSUME_TIMES_AT)
        self.body = spans.body
        self.body_size = spans.body_size
        self.text = spans.properties
        self.text_size = spans.properties_size
        self._scan_text(data, self.text, self.text + self.text_size)
        if self.out_ms < 0 or self.topic_size == 0 or self.queue_id < 0:
            return False
        self.due_ms = self._exact_due(precision_ms)
        return True

    def _scan_text(self, data: Any, at: int, end: int) -> None:
        while at < end:
            pair = text.pair_at(data, at, end)
            if pair.name_size > 0:
                self._property(data, at, pair.name_size, pair.value, pair.value_size)
            at = pair.end + 1

    def _property(self, data: Any, name: int, size: int, value: int, value_size: int) -> None:
        if data[name] == _LETTER_T:
            if text.is_word(data, name, size, b"TIMER_OUT_MS"):
                self.out_ms = self._number(data, value, value + value_size)
            elif text.is_word(data, name, size, b"TIMER_DELAY_SEC"):
                self.delay_sec = self._number(data, value, value + value_size)
            elif text.is_word(data, name, size, b"TIMER_DELAY_MS"):
                self.delay_ms = self._number(data, value, value + value_size)
            elif text.is_word(data, name, size, b"TIMER_DELIVER_MS"):
                self.deliver_ms = self._number(data, value, value + value_size)
            elif text.is_word(data, name, size, b"TIMER_DEL_UNIQKEY"):
                self.cancel = value
                self.cancel_size = value_size
            elif text.is_word(data, name, size, b"TIMER_ROLL_TIMES"):
                self.rolls = self._number(data, value, value + value_size)
        elif data[name] == _LETTER_R:
            if text.is_word(data, name, size, b"REAL_TOPIC"):
                self.topic = value
                self.topic_size = value_size
            elif text.is_word(data, name, size, b"REAL_QID"):
                self.queue_id = self._number(data, value, value + value_size)
                if self.queue_id > _INT_MAX:
                    self.queue_id = -1
        elif data[name] == _LETTER_I:
            if text.is_word(data, name, size, b"INNER_MULTI_DISPATCH"):
                self.is_light = True
        elif data[name] == _LETTER_U and text.is_word(data, name, size, b"UNIQ_KEY"):
            self.unique = value
            self.unique_size = value_size

    def _number(self, data: Any, at: int, end: int) -> int:
        """A number without a sign; -1 when it is none."""
        value = 0
        if at >= end:
            return -1
        while at < end:
            digit = data[at] - ord("0")
            if digit < 0 or digit > 9 or value > _NUMBER_MAX // 10:
                return -1
            value = value * 10 + digit
            at += 1
        return value

    def _exact_due(self, precision_ms: int) -> int:
        """The millisecond the message is due; the slot's end when only the slot is known."""
        due = self.out_ms + precision_ms
        if self.delay_sec >= 0:
            if self.rolls <= 0 and self.delay_sec < _INT_MAX:
                due = self.store_ms + 1000 * self.delay_sec
        elif self.delay_ms >= 0:
            if self.rolls <= 0:
                due = self.store_ms + self.delay_ms
        elif self.deliver_ms >= 0:
            due = self.deliver_ms
        if due <= self.out_ms:
            return self.out_ms + 1
        if due > self.out_ms + precision_ms:
            return self.out_ms + precision_ms
        return due

    def rewrite(self, data: Any, enqueue_ms: int, dequeue_ms: int, is_roll: bool) -> int:
        """Write the properties of the delivered record into ``out``; their size, -1 if too long."""
        size = 0
        at = self.text
        end = self.text + self.text_size
        while at < end:
            pair = text.pair_at(data, at, end)
            if not self._is_replaced(data, at, pair.name_size, is_roll):
                raw.copy_bytes(self.out_address, size, data, at, pair.end - at)
                size += pair.end - at
                self.out_address[size] = text.VALUE_END
                size += 1
            at = pair.end + 1
        size = self._write(size, raw.at_address(self._enqueue_ms), enqueue_ms)
        if is_roll:
            size = self._write(size, raw.at_address(self._roll_times), max(self.rolls, 0) + 1)
        size = self._write(size, raw.at_address(self._dequeue_ms), dequeue_ms)
        return size if size <= _TEXT_MAX else -1

    def _is_replaced(self, data: Any, at: int, size: int, is_roll: bool) -> bool:
        if size != _TIMER_NAME or data[at] != _LETTER_T:
            return False
        if text.is_word(data, at, size, b"TIMER_ENQUEUE_MS"):
            return True
        if text.is_word(data, at, size, b"TIMER_DEQUEUE_MS"):
            return True
        return is_roll and text.is_word(data, at, size, b"TIMER_ROLL_TIMES")

    def _write(self, at: int, name: Any, value: int) -> int:
        raw.copy_bytes(self.out_address, at, name, 0, _TIMER_NAME + 1)
        at = text.put_number(self.out_address, at + _TIMER_NAME + 1, value)
        self.out_address[at] = text.VALUE_END
        return at + 1
