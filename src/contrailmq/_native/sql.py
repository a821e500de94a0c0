# cython: annotation_typing=False
# ruff: noqa: ERA001
"""SQL92 conditions over a stored property string, without an object for any of it.

``protocol/filter/sql_program`` turns a parsed expression into a ``SqlProgram``: nodes of five
numbers, and the names, texts and numbers they speak of.  ``evaluate`` finds the values of the names
in one pass over the bytes and then walks the nodes.  The outcome is true, false, unknown, an error
(a value that cannot be compared, so that the message does not match), or ``HARD``: something this
module does not do, such as a number with an exponent or digits that are not ASCII.  Whoever asks
then lets the Python evaluator decide, whose rules are the same and which knows all of them.
"""

from __future__ import annotations

from array import array
from typing import Any

from contrailmq._native import raw, record, text

Bytes = bytes | bytearray | memoryview

FALSE = 0
TRUE = 1
UNKNOWN = 2
ERROR = 3
HARD = 4
_FALSE = 0
_TRUE = 1
_UNKNOWN = 2
_ERROR = 3
_HARD = 4

# Nodes: operation, a, b, c, d.  A name, text or number is given by its place in its table.
NODE_SIZE = 5
OP_HARD = 0
OP_VALUE = 1  # a: outcome
OP_CAST = 2  # a: name
OP_NOT = 3  # a: node
OP_AND = 4  # a: first child, b: how many
OP_OR = 5
OP_AMONG = 6  # a: name, b: first text, c: how many, d: negated
OP_SEARCH = 7  # a: name, b: text, c: 0 contains, 1 starts with, 2 ends with, d: negated
OP_ORDER_INTEGER = 8  # a: name, b: number, c: 0 >, 1 >=, 2 <, 3 <=, d: 64 bits
OP_ORDER_DOUBLE = 9  # a: name, b: number, c
OP_ORDER_NAMES = 10  # a, b: names, c
OP_EQUAL_TEXT = 11  # a: name, b: text, c: outcome when it is missing
OP_EQUAL_INTEGER = 12  # a: name, b: number, c: when missing, d: 64 bits
OP_EQUAL_DOUBLE = 13  # a: name, b: number, c: when missing
OP_EQUAL_BOOLEAN = 14  # a: name, b: wanted, c: when missing
OP_IS_NULL = 15  # a: name
OP_IS_UNKNOWN = 16  # a: node
OP_EQUAL_NAMES = 17  # a, b: names
_NODE_SIZE = 5
_OP_HARD = 0
_OP_VALUE = 1
_OP_CAST = 2
_OP_NOT = 3
_OP_AND = 4
_OP_OR = 5
_OP_AMONG = 6
_OP_SEARCH = 7
_OP_ORDER_INTEGER = 8
_OP_ORDER_DOUBLE = 9
_OP_ORDER_NAMES = 10
_OP_EQUAL_TEXT = 11
_OP_EQUAL_INTEGER = 12
_OP_EQUAL_DOUBLE = 13
_OP_EQUAL_BOOLEAN = 14
_OP_IS_NULL = 15
_OP_IS_UNKNOWN = 16
_OP_EQUAL_NAMES = 17

NAMES_MAX = 16
_DIGITS_MAX = 18  # of an integer that surely fits 64 bits
_EXACT_DIGITS = 15  # of a mantissa that a double holds exactly
_FRACTION_MAX = 22  # 10 ** 22 is the last power of ten that is an exact double
_INT_MAX = 2147483647
_POWERS = array("d", [float(10**power) for power in range(23)])
_TRUE_TEXT = b"true"
_LOWER = ord(" ")  # the bit that makes a letter a small one


class SqlProgram:
    """A compiled expression. Owned by one thread: a call uses its scratch space."""

    def __init__(
        self,
        nodes: list[int],
        children: list[int],
        texts: list[bytes],
        integers: list[int],
        doubles: list[float],
        fallback: Any,
    ) -> None:
        """``texts`` begins with the names; ``fallback`` decides hard cases from the bytes."""
        self.names = 0
        self.nodes = array("q", nodes)
        self.children = array("q", children or [0])
        self.integers = array("q", integers or [0])
        self.doubles = array("d", doubles or [0.0])
        self.fallback = fallback
        self.texts = b"".join(texts) or b"\0"
        self.text_data = raw.at_address(self.texts)
        end = 0
        places = [0]
        for part in texts:
            end += len(part)
            places.append(end)
        self.text_at = array("q", places)
        self.value_at = array("q", bytes(8 * NAMES_MAX))
        self.value_size = array("q", bytes(8 * NAMES_MAX))
        self.data = self.text_data
        self.number = 0.0

    def set_names(self, count: int) -> None:
        """How many of the texts are names of properties; at most ``NAMES_MAX``."""
        if count > NAMES_MAX or count >= len(self.text_at):
            raise ValueError("sql: too many names")
        self.names = count

    def evaluate(self, properties: Bytes) -> int:
        """The outcome for a property string."""
        if len(properties) == 0:
            return self.evaluate_at(self.text_data, 0, 0)
        return self.evaluate_at(raw.at_address(properties), 0, len(properties))

    def matches(self, properties: bytes) -> bool:
        """Whether a message with this property string matches."""
        outcome = self.evaluate(properties)
        if outcome == _HARD:
            return bool(self.fallback(properties))
        return outcome == _TRUE

    def matches_record(self, data: Any, position: int, size: int) -> bool:
        """The same for the record of this size at a place; its head is known to be there.

        A record whose lengths do not add up does not match.
        """
        spans = record.locate(data, position, size)
        if spans.size <= 0:
            return False
        outcome = self.evaluate_at(data, spans.properties, spans.end)
        if outcome == _HARD:
            return bool(self.fallback(bytes(data[spans.properties : spans.end])))
        return outcome == _TRUE

    def evaluate_at(self, data: Any, start: int, end: int) -> int:
        """The outcome for the property string of these bytes; the caller has checked the range."""
        self.data = data
        self._find_values(data, start, end)
        return self._evaluate(0)

    def _find_values(self, data: Any, start: int, end: int) -> None:
        """Where the names' values are; of a name that occurs twice the last one counts."""
        for number in range(self.names):
            self.value_size[number] = -1
        while start < end:
            pair = text.pair_at(data, start, end)
            for number in range(self.names):
                at = self.text_at[number]
                size = self.text_at[number + 1] - at
                if (
                    size == pair.name_size
                    and pair.value_size > 0
                    and raw.same_bytes(self.text_data, at, data, start, size)
                ):
                    self.value_at[number] = pair.value
                    self.value_size[number] = pair.value_size
            start = pair.end + 1

    def _evaluate(self, node: int) -> int:
        at = node * _NODE_SIZE
        op = self.nodes[at]
        a = self.nodes[at + 1]
        b = self.nodes[at + 2]
        if op == _OP_AND or op == _OP_OR:
            return self._chain(a, b, _FALSE if op == _OP_AND else _TRUE)
        if op == _OP_VALUE:
            return a
        if op == _OP_NOT or op == _OP_IS_UNKNOWN:
            outcome = self._evaluate(a)
            if outcome >= _ERROR:
                return outcome
            if op == _OP_IS_UNKNOWN:
                return _TRUE if outcome == _UNKNOWN else _FALSE
            return outcome if outcome == _UNKNOWN else 1 - outcome
        if op == _OP_HARD:
            return _HARD
        if op == _OP_EQUAL_NAMES or op == _OP_ORDER_NAMES:
            return self._compare_names(op, a, b, self.nodes[at + 3])
        if self.value_size[a] < 0:
            return self._missing(op, self.nodes[at + 3])
        return self._compare(op, a, b, self.nodes[at + 3], self.nodes[at + 4])

    def _chain(self, first: int, count: int, final: int) -> int:
        """AND and OR; ``final`` is the outcome that decides at once."""
        result = 1 - final
        for place in range(first, first + count):
            outcome = self._evaluate(self.children[place])
            if outcome == final or outcome >= _ERROR:
                return outcome
            if outcome == _UNKNOWN:
                result = _UNKNOWN
        return result

    def _missing(self, op: int, outcome: int) -> int:
        """What a node says of a property that is not there."""
        if op == _OP_IS_NULL:
            return _TRUE
        if op == _OP_SEARCH:
            return _FALSE
        if op >= _OP_EQUAL_TEXT and op <= _OP_EQUAL_BOOLEAN:
            return outcome
        return _UNKNOWN

    def _compare(self, op: int, name: int, b: int, c: int, d: int) -> int:
        """A property that is there against what the node holds."""
        if op == _OP_EQUAL_TEXT:
            return self._is_text(name, b)
        if op == _OP_AMONG:
            for word in range(b, b + c):
                if self._is_text(name, word):
                    return 1 - d
            return d
        if op == _OP_ORDER_INTEGER or op == _OP_EQUAL_INTEGER:
            return self._compare_integer(op, name, self.integers[b], c, d)
        if op == _OP_ORDER_DOUBLE or op == _OP_EQUAL_DOUBLE:
            outcome = self._parse_double(name)
            if outcome != _TRUE:
                return outcome
            if op == _OP_EQUAL_DOUBLE:
                return _TRUE if self.number == self.doubles[b] else _FALSE
            return _order(self.number, self.doubles[b], c)
        if op == _OP_SEARCH:
            return self._search(name, b, c, d)
        if op == _OP_EQUAL_BOOLEAN:
            return 1 if self._is_true(name) == b else 0
        return _FALSE  # CAST, IS NULL

    def _compare_names(self, op: int, left: int, right: int, test: int) -> int:
        left_size = self.value_size[left]
        right_size = self.value_size[right]
        if op == _OP_ORDER_NAMES:
            if left_size < 0 or right_size < 0:
                return _UNKNOWN
            outcome = self._parse_double(left)
            if outcome != _TRUE:
                return outcome
            first = self.number
            outcome = self._parse_double(right)
            if outcome != _TRUE:
                return outcome
            return _order(first, self.number, test)
        if left_size < 0:
            return _TRUE if right_size < 0 else _UNKNOWN
        if right_size < 0:
            return _FALSE
        left_at = self.value_at[left]
        right_at = self.value_at[right]
        if left_size == right_size and raw.same_bytes(
            self.data, left_at, self.data, right_at, left_size
        ):
            return _TRUE
        for at in range(left_at, left_at + left_size):
            if self.data[at] >= text.HIGH_BIT:
                return _HARD  # what is no UTF-8 may be equal when decoded
        return _FALSE

    def _is_text(self, name: int, word: int) -> int:
        at = self.text_at[word]
        size = self.text_at[word + 1] - at
        if size != self.value_size[name]:
            return 0
        return 1 if raw.same_bytes(self.text_data, at, self.data, self.value_at[name], size) else 0

    def _search(self, name: int, word: int, place: int, negated: int) -> int:
        at = self.text_at[word]
        size = self.text_at[word + 1] - at
        value = self.value_at[name]
        room = self.value_size[name] - size
        if size == 0:
            return _FALSE
        found = 0
        if room >= 0:
            if place == 1:
                found = 1 if raw.same_bytes(self.text_data, at, self.data, value, size) else 0
            elif place == 2:
                value += room
                found = 1 if raw.same_bytes(self.text_data, at, self.data, value, size) else 0
            else:
                for step in range(room + 1):
                    if raw.same_bytes(self.text_data, at, self.data, value + step, size):
                        found = 1
                        break
        return 1 - found if negated else found

    def _is_true(self, name: int) -> int:
        at = self.value_at[name]
        if self.value_size[name] != len(_TRUE_TEXT):
            return 0
        for step in range(len(_TRUE_TEXT)):
            if self.data[at + step] | _LOWER != _TRUE_TEXT[step]:
                return 0
        return 1

    def _compare_integer(self, op: int, name: int, number: int, test: int, is_long: int) -> int:
        at = self.value_at[name]
        end = at + self.value_size[name]
        is_negative = 0
        if self.data[at] == ord("-") or self.data[at] == ord("+"):
            is_negative = 1 if self.data[at] == ord("-") else 0
            at += 1
            if at == end:
                return _ERROR
        value = 0
        for place in range(at, end):
            digit = self.data[place]
            if digit >= text.HIGH_BIT:
                return _HARD  # there are digits that are not ASCII
            if digit < ord("0") or digit > ord("9"):
                return _ERROR  # whatever follows
            if place - at >= _DIGITS_MAX:
                return _HARD
            value = value * 10 + (digit - ord("0"))
        if is_negative:
            value = -value
        if not is_long and (value > _INT_MAX or value < -_INT_MAX - 1):
            return _ERROR
        if op == _OP_EQUAL_INTEGER:
            return 1 if value == number else 0
        if test == 0:
            return 1 if value > number else 0
        if test == 1:
            return 1 if value >= number else 0
        if test == 2:
            return 1 if value < number else 0
        return 1 if value <= number else 0

    def _parse_double(self, name: int) -> int:
        """Read a value into ``number``: TRUE when it is one, ERROR, or HARD."""
        at = self.value_at[name]
        end = at + self.value_size[name]
        while at < end and self.data[at] <= ord(" "):
            at += 1
        while at < end and self.data[end - 1] <= ord(" "):
            end -= 1
        is_negative = 0
        if at < end and (self.data[at] == ord("-") or self.data[at] == ord("+")):
            is_negative = 1 if self.data[at] == ord("-") else 0
            at += 1
        if at == end:
            return _ERROR
        first = self.data[at]
        if first != ord(".") and (first < ord("0") or first > ord("9")):
            return _HARD if first == ord("N") or first == ord("I") else _ERROR  # NaN, Infinity
        mantissa = 0
        digits = 0  # after leading zeros
        count = 0
        fraction = -1
        while at < end:
            digit = self.data[at]
            if digit == ord(".") and fraction < 0:
                fraction = 0
            elif digit >= ord("0") and digit <= ord("9"):
                mantissa = mantissa * 10 + (digit - ord("0"))
                count += 1
                if mantissa:
                    digits += 1
                if fraction >= 0:
                    fraction += 1
                if digits > _EXACT_DIGITS or fraction > _FRACTION_MAX:
                    return _HARD
            else:
                break
            at += 1
        if at < end or count == 0 or (mantissa == 0 and is_negative):
            return _HARD  # an exponent, a suffix, garbage; minus zero, which is below zero
        value = float(mantissa)
        if fraction > 0:
            value = value / _POWERS[fraction]
        self.number = -value if is_negative else value
        return _TRUE


def _order(left: float, right: float, test: int) -> int:
    if test == 0:
        return 1 if left > right else 0
    if test == 1:
        return 1 if left >= right else 0
    if test == 2:
        return 1 if left < right else 0
    return 1 if left <= right else 0
