"""Fill Arrow column buffers from records that ``arrow.Survey`` has surveyed.

What a survey found is trusted here.  Lengths are taken from it, not read again, so bytes that
change in between (a segment somebody still writes to) change values but never what is read or
written.

Names with an underscore are C constants and C functions in the compiled build.
"""

from __future__ import annotations

from typing import Any

from contrailmq._native import raw

_WIDTH = 6
_PAIR_WIDTH = 3
_I64_MAX = 0x7FFFFFFFFFFFFFFF


def fill_i32(survey: Any, column: int, shift: int, out: Any) -> None:
    """A 4-byte number ``shift`` bytes behind one part of each record."""
    _require(survey.count, len(out), column)
    source = survey.source
    places = survey.places
    for index in range(len(out)):
        out[index] = raw.get_i32(source, places[index * _WIDTH + column] + shift)


def fill_i64(survey: Any, column: int, shift: int, scale: int, out: Any) -> None:
    """An 8-byte number ``shift`` bytes behind one part of each record, times ``scale``.

    What would be too large then is as large as can be.
    """
    _require(survey.count, len(out), column)
    source = survey.source
    places = survey.places
    top = _I64_MAX // scale
    for index in range(len(out)):
        value = raw.get_i64(source, places[index * _WIDTH + column] + shift)
        if scale != 1:
            value = min(max(value, -top), top)
        out[index] = value * scale


def fill_spans(survey: Any, column: int, offsets: Any, out: Any) -> None:
    """The bytes from one part of each record to the next part: bodies or topics."""
    _require(survey.count, len(offsets) - 1, column + 1)
    _fill(survey, survey.places, _WIDTH, column, 0, offsets, out)


def fill_names(survey: Any, offsets: Any, out: Any) -> None:
    """The names of all pairs."""
    _require(survey.pair_count, len(offsets) - 1, 0)
    # A name ends one byte before its value begins.
    _fill(survey, survey.pairs, _PAIR_WIDTH, 0, 1, offsets, out)


def fill_values(survey: Any, offsets: Any, out: Any) -> None:
    """The values of all pairs."""
    _require(survey.pair_count, len(offsets) - 1, 0)
    _fill(survey, survey.pairs, _PAIR_WIDTH, 1, 0, offsets, out)


def fill_hits(survey: Any, column: int, offsets: Any, out: Any) -> None:
    """The values of one name, as a text column; its gaps are empty."""
    _require(survey.count, len(offsets) - 1, 0)
    survey.value_sizes(column)  # refuses a column it does not have
    _fill(survey, survey.hits, 2 * survey.column_count, 2 * column, 0, offsets, out)


def _fill(
    survey: Any, numbers: Any, width: int, first: int, cut: int, offsets: Any, out: Any
) -> None:
    """Bytes from one number of each row to the next one; none from -1 on."""
    size = 0
    room = len(out)
    count = len(offsets) - 1
    source = survey.source
    limit = survey.limit
    target = raw.at_address(out)
    for index in range(count):
        offsets[index] = size
        start = numbers[index * width + first]
        if start < 0:
            continue
        length = numbers[index * width + first + 1] - start - cut
        if length > room - size:
            raise ValueError("no room for the bytes of a column")
        raw.copy_short(target, size, room, source, start, limit, length)
        size += length
    offsets[count] = size


def fill_validity(survey: Any, column: int, validity: Any) -> None:
    """One bit a record: whether it has a value of a name.  All bits must be zero before."""
    survey.value_sizes(column)
    if len(validity) * 8 < survey.count:
        raise ValueError(f"no room for {survey.count} bits")
    hits = survey.hits
    for index in range(survey.count):
        if hits[2 * (index * survey.column_count + column)] >= 0:
            validity[index >> 3] |= 1 << (index & 7)


def fill_message_ids(survey: Any, offsets: Any, out: Any) -> int:
    """The offset id of each record; answers the bytes used (32 a record, 56 with IPv6)."""
    count = len(offsets) - 1
    _require(survey.count, count, 5)
    data = survey.source
    places = survey.places
    room = len(out)
    size = 0
    for index in range(count):
        offsets[index] = size
        slot = index * _WIDTH
        host = places[slot + 5] + 8
        if room - size < 2 * (places[slot + 1] - 8 - host):
            raise ValueError("no room for the bytes of a column")
        for at in range(host, places[slot + 1] - 16):
            out[size] = _hex(data[at] >> 4)
            out[size + 1] = _hex(data[at] & 15)
            size += 2
        for at in range(places[slot] + 28, places[slot] + 36):
            out[size] = _hex(data[at] >> 4)
            out[size + 1] = _hex(data[at] & 15)
            size += 2
    offsets[count] = size
    return size


def _hex(digit: int) -> int:
    return digit + 48 if digit < 10 else digit + 55


def fill_born_hosts(survey: Any, offsets: Any, out: Any) -> int:
    """``ip:port`` of each producer; answers the bytes used (at most 27 a record, 51 with IPv6)."""
    count = len(offsets) - 1
    _require(survey.count, count, 5)
    data = survey.source
    places = survey.places
    room = len(out)
    size = 0
    before = -1
    before_end = -1
    for index in range(count):
        at = places[index * _WIDTH] + 48
        end = places[index * _WIDTH + 5] - 4
        if room - size < (27 if end - at == 4 else 51):
            raise ValueError("no room for the bytes of a column")
        if before >= 0 and _same_host(data, before, before_end, at, end):
            # Neighbours mostly come from one producer: copy its text.
            start = offsets[index - 1]
            length = size - start
            offsets[index] = size
            for step in range(length):
                out[size + step] = out[start + step]
            size += length
            continue
        before = at
        before_end = end
        offsets[index] = size
        if end - at == 4:
            for place in range(at, end):
                size = _decimal(data[place], out, size)
                out[size] = 46
                size += 1
            out[size - 1] = 58
        else:
            for place in range(at, end, 2):
                size = _hexadecimal((data[place] << 8) | data[place + 1], out, size)
                out[size] = 58
                size += 1
        port = raw.get_i32(data, end)
        if port < 0:
            out[size] = 45
            size += 1
            port = -port
        size = _decimal(port, out, size)
    offsets[count] = size
    return size


def _same_host(data: Any, first: int, first_end: int, second: int, second_end: int) -> bool:
    size = second_end - second
    return first_end - first == size and raw.is_same(data, first, second, size + 4)


def _decimal(value: int, out: Any, size: int) -> int:
    scale = 1
    while value // scale >= 10:
        scale *= 10
    while scale > 0:
        out[size] = 48 + value // scale % 10
        size += 1
        scale //= 10
    return size


def _hexadecimal(value: int, out: Any, size: int) -> int:
    shift = 12
    while shift > 0 and value >> shift == 0:
        shift -= 4
    while shift >= 0:
        digit = (value >> shift) & 15
        out[size] = digit + 48 if digit < 10 else digit + 87
        size += 1
        shift -= 4
    return size


def _require(there: int, count: int, column: int) -> None:
    if there < count or count < 0 or column < 0 or column >= _WIDTH:
        raise ValueError(f"part {column} of {count} rows, but there are {there}")
