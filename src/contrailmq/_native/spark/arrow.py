"""Records surveyed for Arrow columns: where their parts and pairs are, without an object a record.

``find_records`` finds where records begin.  A ``Survey`` goes over records block by block: it
checks each, writes where its parts are (a *place* of six numbers), where its pairs are (name,
value, end; the last of equal names wins) and where the values of some names are (*hits*), adds up
the sizes of the block's columns, and notes which records are *odd*: a compressed body, or text that
is not UTF-8.  Odd ones have to be replaced, since Arrow's text must be UTF-8.  The columns of
``arrow_fill`` take what they need of one block before the next is surveyed: a block of records
stays in the processor's cache, a whole chunk would not.

Neighbours mostly have the same names in the same order, and often values of the same lengths.  So
two things are kept in mind.  The *shape* is a property string, and which of its bytes belong to
values: another with the same other bytes has its pairs at the same places.  The *model* are the
names of the last record that was split in full: a property string that has only names of the model,
in its order, needs no search for names, none has to be looked up and none can be there twice.

Names with an underscore are C constants and C functions in the compiled build.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from contrailmq._native import raw, record, text
from contrailmq._native.spark import place

_MANY = 64
_LEFT_OUT = 0x80
_FIXED = 255  # a byte of the mask that belongs to no value
_WORD = 64  # bytes that a mask of bits is about
_AHEAD = 8
_BLOCK = 512
_PAIR_SIZE_MIN = 4  # name, value, two separators
_LINE = 64
_LINES = 16 * _LINE
_SHAPE_MIN = 16
_SHAPE_MAX = 512
_PATIENCE = 2
_PATIENCE_MAX = 1024


def find_records(data: Any, spans: Any, positions: Any) -> tuple[int, int]:
    """Where the records of some answers begin.

    A span is ``start``, ``end`` and ``limit``: records back to back from start to end, of which
    those from queue offset ``limit`` on are left out, for they come last.  Answers how many
    positions were found, and the place where no record is, or -1.
    """
    room = len(positions)
    count = 0
    source = raw.at_address(data)
    for span in range(len(spans) // 3):
        at = spans[3 * span]
        end = spans[3 * span + 1]
        limit = spans[3 * span + 2]
        if at < 0 or end > len(data):
            raise ValueError(f"span of {at} to {end} in {len(data)} bytes")
        while at < end:
            if end - at < record.SIZE_MIN:
                return count, at
            size = record.size_of(source, at)
            if size < record.SIZE_MIN or size > end - at:
                return count, at
            raw.prefetch(source, at + _AHEAD * size)  # neighbours are mostly of one size
            if record.queue_offset(source, at) >= limit:
                break
            if count == room:
                raise ValueError(f"no room for more than {room} positions")
            positions[count] = at
            count += 1
            at += size
    return count, -1


def new_buffer(size: int) -> bytearray:
    """A buffer whose content is the caller's to write: in the compiled build it is not cleared."""
    return raw.new_buffer(size)


class Survey:
    """Where everything is in some records; its memory serves one reading after the other."""

    def __init__(
        self, columns: Sequence[bytes], without: Collection[bytes] = (), with_pairs: bool = True
    ) -> None:
        """``columns``: names whose values are wanted; ``without``: names that are no pairs."""
        self._other = 0 if with_pairs else _LEFT_OUT
        kinds = dict.fromkeys(columns, self._other)
        kinds.update({name: _LEFT_OUT for name in without if name})
        for number, name in enumerate(columns):
            kinds[name] |= number + 1
        known = sorted(kinds, key=len)
        self._longest = max(map(len, known), default=0)
        self._names = b"".join(known)
        self._kinds = b"".join(bytes([kinds[name]]) * len(name) for name in known)
        self._borders = _numbers(self._longest + 2)
        for size in range(self._longest + 2):
            self._borders[size] = sum(len(name) for name in known if len(name) < size)
        self.column_count = len(columns)
        self._sums = _numbers(len(columns))
        self._model = _numbers(3 * _MANY)
        self._shape_size = -1
        self._shape_count = 0
        self._shape_names_size = 0
        self._shape_values_size = 0
        self._shape_text = bytearray(_SHAPE_MAX)
        self._shape_mask = bytearray(_SHAPE_MAX)
        self._shape_pairs = _numbers(3 * _MANY)
        self._shape_hits = _numbers(2 * len(columns))
        self._misses = 0
        self._patience = _PATIENCE
        self._place_memory = _numbers(place.PLACE_WIDTH * _BLOCK)
        self.places = raw.numbers_at(self._place_memory)
        self._hit_memory = _numbers(2 * len(columns) * _BLOCK)
        self.hits = raw.numbers_at(self._hit_memory)
        self._pair_room = 8 * _BLOCK
        self._pair_memory = _numbers(3 * self._pair_room)
        self.pairs = raw.numbers_at(self._pair_memory)
        self.release()

    def begin(self, data: Any, positions: Any) -> None:
        """Take the records at some positions; ``more`` surveys them."""
        self.release()
        self.rows = len(positions)
        self.data = data
        self.source = raw.at_address(self.data)
        self.limit = len(data)
        self._positions = positions
        self.firsts = raw.new_buffer(4 * (self.rows + 1))
        self._offsets = memoryview(self.firsts).cast("i")
        self._offsets[0] = 0
        self._size = _LINES
        self._model_count = 0
        self._topic_at = 0
        self._topic_length = -1

    def release(self) -> None:
        """Let go of the data: there is nothing more in it."""
        self.data = b""
        self.source = raw.at_address(self.data)
        self.limit = 0
        self._positions = _numbers(0)
        self.firsts = bytearray(4)
        self._offsets = memoryview(self.firsts).cast("i")
        self.rows = 0
        self.first = 0
        self.count = 0
        self.pair_first = 0
        self.pair_count = 0
        self.damaged = -1
        self.flags = 0
        self.odd: list[int] = []

    def more(self) -> bool:
        """Survey the next block; whether there was one, and no damage in it.

        ``damaged`` is then the index of the first damaged record, or -1.
        """
        self._begin_block()
        last = min(self.first + _BLOCK, self.rows)
        for row in range(self.first, last):
            self._prefetch(row + _AHEAD)
            index = row - self.first
            start = self._locate(self._positions[row], index * place.PLACE_WIDTH)
            if start < 0:
                self.damaged = row
                self.count = 0
                return False
            end = self._end
            for at in range(2 * index * self.column_count, 2 * (index + 1) * self.column_count):
                self.hits[at] = -1
            if self._pair_room - self.pair_count < _MANY:
                self._make_room(_MANY)
            found = self._fit(index, start, end)
            if found == 0:
                first = self.pair_count
                found = self._match(index, start, end)
                if found == 0:
                    self._split(index, start, end)
                self._learn(index, start, end, first)
            if (
                self._flags & record.COMPRESSED
                or not self._is_topic_text(
                    self.places[index * place.PLACE_WIDTH + place.TOPIC],
                    start - record.PROPERTIES_HEAD,
                )
                or (found != 1 and not _is_utf8(self.source, start, end))
            ):
                self.odd.append(row)
            self._count_hits(2 * index * self.column_count)
            self._offsets[row + 1] = self.pair_first + self.pair_count
        self.count = last - self.first
        return self.count > 0

    def value_size(self, column: int) -> int:
        """The bytes of all values of one name in this block."""
        if column < 0 or column >= self.column_count:
            raise ValueError(f"column {column} of {self.column_count}")
        return self._sums[column]

    def _begin_block(self) -> None:
        self.first += self.count
        self.pair_first += self.pair_count
        self.count = 0
        self.pair_count = 0
        self.body_size = 0
        self.topic_size = 0
        self.names_size = 0
        self.values_size = 0
        self.born_v6 = 0
        self.store_v6 = 0
        for index in range(self.column_count):
            self._sums[index] = 0

    def _prefetch(self, row: int) -> None:
        """Have a record that will be read soon brought near, all of it if it is not large."""
        if row >= self.rows:
            return
        at = self._positions[row]
        end = at + min(self._size, _LINES)  # neighbours are mostly of one size
        while at < end:
            raw.prefetch(self.source, at)
            at += _LINE

    def _locate(self, at: int, slot: int) -> int:
        """Find the parts of one record; where its property string begins, or -1."""
        source = self.source
        places = self.places
        if at < 0 or self.limit - at < record.SIZE_MIN:
            return -1
        size = record.size_of(source, at)
        if not record.is_record(record.magic(source, at)):
            return -1
        if size < record.SIZE_MIN or size > self.limit - at:
            return -1
        spans = record.locate(source, at, size)
        if spans.size <= 0 or spans.end != at + size:
            return -1
        flags = record.sys_flag(source, at)
        places[slot + place.RECORD] = at
        places[slot + place.BODY] = spans.body
        places[slot + place.BODY_END] = spans.body + spans.body_size
        places[slot + place.TOPIC] = spans.topic
        places[slot + place.TOPIC_END] = spans.topic + spans.topic_size
        places[slot + place.STORE_MS] = at + record.store_ms_at(flags)
        self._end = spans.end
        self._size = size
        self._flags = flags
        self.flags |= flags
        if flags & record.BORN_HOST_V6:
            self.born_v6 += 1
        if flags & record.STORE_HOST_V6:
            self.store_v6 += 1
        self.body_size += spans.body_size
        self.topic_size += spans.topic_size
        return spans.properties

    def _is_topic_text(self, at: int, end: int) -> bool:
        """Whether a topic is UTF-8; neighbours mostly have the same."""
        if end - at == self._topic_length and raw.is_same(
            self.source, self._topic_at, at, self._topic_length
        ):
            return True
        if not _is_utf8(self.source, at, end):
            return False
        self._topic_at = at
        self._topic_length = end - at
        return True

    def _fit(self, index: int, start: int, end: int) -> int:
        """Find the pairs of a property string that has the shape.

        Answers 0 if it has another, 1 if it is ASCII besides, 2 if it is not.
        """
        if end - start != self._shape_size:
            return 0
        found = raw.fits(
            self.source,
            start,
            raw.at_address(self._shape_text),
            raw.at_address(self._shape_mask),
            self._shape_size,
            text.VALUE_END,
        )
        if found == 0:
            return 0
        pairs = self.pairs
        slot = 3 * self.pair_count
        for at in range(3 * self._shape_count):
            pairs[slot + at] = start + self._shape_pairs[at]
        slot = 2 * index * self.column_count
        for at in range(2 * self.column_count):
            if self._shape_hits[at] >= 0:
                self.hits[slot + at] = start + self._shape_hits[at]
        self.pair_count += self._shape_count
        self.names_size += self._shape_names_size
        self.values_size += self._shape_values_size
        self._misses = 0
        self._patience = _PATIENCE
        return found

    def _learn(self, index: int, start: int, end: int, first: int) -> None:
        """Make a property string the shape if the one there is has not been seen for some time.

        ``first`` is where its pairs begin.  The time grows while no string has the shape.
        """
        self._misses += 1
        size = end - start
        count = self.pair_count - first
        if self._misses < self._patience or size < _SHAPE_MIN or size > _SHAPE_MAX or count > _MANY:
            return
        self._misses = 0
        self._patience = min(2 * self._patience, _PATIENCE_MAX)
        self._shape_size = size
        is_value = False
        for at in range(size):
            byte = self.source[start + at]
            if byte == text.VALUE_END:
                is_value = False
            self._shape_text[at] = byte
            self._shape_mask[at] = 0 if is_value else _FIXED
            if byte == text.NAME_END:
                is_value = True
        self._shape_count = count
        self._shape_names_size = 0
        self._shape_values_size = 0
        for pair in range(count):
            slot = 3 * (first + pair)
            for at in range(3):
                self._shape_pairs[3 * pair + at] = self.pairs[slot + at] - start
            self._shape_names_size += self.pairs[slot + 1] - 1 - self.pairs[slot]
            self._shape_values_size += self.pairs[slot + 2] - self.pairs[slot + 1]
        slot = 2 * index * self.column_count
        for at in range(2 * self.column_count):
            self._shape_hits[at] = self.hits[slot + at] - start if self.hits[slot + at] >= 0 else -1

    def _match(self, index: int, start: int, end: int) -> int:
        """Find the pairs of a property string that has names of the model in its order.

        Answers 0 if it has others, 1 if it is ASCII besides, 2 if it is not.
        """
        source = self.source
        model = raw.numbers_at(self._model)
        model_count = self._model_count
        pairs = self.pairs
        found = self.pair_count
        name_size = 0
        value_size = 0
        high = 0
        known = 0
        block = start
        while block <= end:
            mask = raw.find_64(source, block, end, self.limit, text.VALUE_END)
            high |= raw.high_64(source, block, end, self.limit)
            if end - block < _WORD:
                mask |= raw.bit(end - block)  # the last pair may have no separator
            while mask != 0:
                stop = block + raw.lowest_bit(mask)
                mask &= mask - 1
                if stop == start:
                    start += 1
                    continue
                # A name of the model, the separator behind it, and a value.
                while known < model_count and (
                    stop - start <= model[3 * known + 1]
                    or not raw.is_same(source, model[3 * known], start, model[3 * known + 1])
                ):
                    known += 1
                if known == model_count:
                    return 0
                value = start + model[3 * known + 1]
                kind = model[3 * known + 2]
                known += 1
                if kind != 0:
                    self._hit(index, kind, value, stop)
                if kind < _LEFT_OUT:
                    pairs[3 * found] = start
                    pairs[3 * found + 1] = value
                    pairs[3 * found + 2] = stop
                    found += 1
                    name_size += value - 1 - start
                    value_size += stop - value
                start = stop + 1
            block += _WORD
        self.pair_count = found
        self.names_size += name_size
        self.values_size += value_size
        return 1 if high == 0 else 2

    def _hit(self, index: int, kind: int, value: int, stop: int) -> None:
        column = (kind & (_LEFT_OUT - 1)) - 1
        if column >= 0:
            at = 2 * (index * self.column_count + column)
            self.hits[at] = value
            self.hits[at + 1] = stop

    def _count_hits(self, slot: int) -> None:
        for column in range(self.column_count):
            at = slot + 2 * column
            if self.hits[at] >= 0:
                self._sums[column] += self.hits[at + 1] - self.hits[at]

    def _make_room(self, count: int) -> None:
        """Room for some pairs more."""
        room = 2 * (self.pair_count + count)
        memory = _numbers(3 * room)
        if self.pair_count > 0:
            memory[: 3 * self.pair_count] = self._pair_memory[: 3 * self.pair_count]
        self._pair_memory = memory
        self._pair_room = room
        self.pairs = raw.numbers_at(self._pair_memory)

    def _split(self, index: int, start: int, end: int) -> None:
        """Find the pairs of any property string, and make its names the model."""
        source = self.source
        most = (end - start) // _PAIR_SIZE_MIN + 1
        if self._pair_room - self.pair_count < most:
            self._make_room(most)
        pairs = self.pairs
        begin = self.pair_count
        found = begin
        for slot in range(2 * index * self.column_count, 2 * (index + 1) * self.column_count):
            self.hits[slot] = -1
        while start < end:
            pair = text.pair_at(source, start, end)
            if pair.name_size > 0 and pair.value_size > 0:
                pairs[3 * found + place.NAME] = start
                pairs[3 * found + place.VALUE] = pair.value
                pairs[3 * found + place.VALUE_END] = pair.end
                found += 1
            start = pair.end + 1
        if found - begin > 1:
            found = self._unique(begin, found)
        self._model_count = 0
        for number in range(begin, found):
            start = pairs[3 * number]
            value = pairs[3 * number + 1]
            kind = self._kind(start, value - 1 - start)
            if found - begin <= _MANY:
                self._model[3 * self._model_count] = start
                self._model[3 * self._model_count + 1] = value - start
                self._model[3 * self._model_count + 2] = kind
                self._model_count += 1
            at = pairs[3 * number + 2]
            self._hit(index, kind, value, at)
            if kind < _LEFT_OUT:
                pairs[3 * self.pair_count] = start
                pairs[3 * self.pair_count + 1] = value
                pairs[3 * self.pair_count + 2] = at
                self.pair_count += 1
                self.names_size += value - 1 - start
                self.values_size += at - value

    def _kind(self, start: int, length: int) -> int:
        """What is to be done with the pairs of a name."""
        if length > self._longest:
            return self._other
        at = self._borders[length]
        names = raw.at_address(self._names)
        while at < self._borders[length + 1]:
            if (
                names[at] == self.source[start]
                and names[at + length - 1] == self.source[start + length - 1]
                and raw.same_bytes(names, at, self.source, start, length)
            ):
                return self._kinds[at]
            at += length
        return self._other

    def _unique(self, begin: int, end: int) -> int:
        """Put the last of equal names to the place of the first; where the pairs end then."""
        if end - begin > _MANY:
            return self._unique_of_many(begin, end)
        pairs = self.pairs
        kept = begin
        for index in range(begin, end):
            start = pairs[3 * index]
            length = pairs[3 * index + 1] - start
            twin = begin
            while twin < kept and (
                pairs[3 * twin + 1] - pairs[3 * twin] != length
                or not raw.is_same(self.source, pairs[3 * twin], start, length)
            ):
                twin += 1
            if twin == kept:
                kept += 1
            pairs[3 * twin] = start
            pairs[3 * twin + 1] = pairs[3 * index + 1]
            pairs[3 * twin + 2] = pairs[3 * index + 2]
        return kept

    def _unique_of_many(self, begin: int, end: int) -> int:
        pairs = self.pairs
        known: dict[bytes, int] = {}
        kept = begin
        for index in range(begin, end):
            length = pairs[3 * index + 1] - pairs[3 * index]
            name = raw.copy_of(self.source, pairs[3 * index], length)
            twin = known.get(name, -1)
            if twin < 0:
                twin = kept
                known[name] = kept
                kept += 1
            pairs[3 * twin] = pairs[3 * index]
            pairs[3 * twin + 1] = pairs[3 * index + 1]
            pairs[3 * twin + 2] = pairs[3 * index + 2]
        return kept


def _numbers(count: int) -> memoryview:
    """Memory for 64-bit numbers."""
    return memoryview(bytearray(8 * max(count, 1))).cast("q")


def _is_utf8(source: Any, at: int, end: int) -> bool:
    """Whether bytes are UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF."""
    while at < end:
        first = source[at]
        if first < text.HIGH_BIT:
            at += 1
            continue
        low = text.UTF8_NEXT
        top = text.UTF8_NEXT_TOP
        if first < text.UTF8_TWO or first > text.UTF8_LAST:
            return False
        if first < text.UTF8_THREE:
            more = 1
        elif first < text.UTF8_FOUR:
            more = 2
            if first == text.UTF8_THREE:
                low = text.UTF8_THREE_NEXT
            elif first == text.UTF8_SURROGATES:
                top = text.UTF8_SURROGATES_TOP
        else:
            more = 3
            if first == text.UTF8_FOUR:
                low = text.UTF8_FOUR_NEXT
            elif first == text.UTF8_LAST:
                top = text.UTF8_LAST_TOP
        if end - at <= more or source[at + 1] < low or source[at + 1] > top:
            return False
        for index in range(2, more + 1):
            if source[at + index] < text.UTF8_NEXT or source[at + index] > text.UTF8_NEXT_TOP:
                return False
        at += more + 1
    return True
