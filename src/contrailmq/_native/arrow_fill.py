"""Fill Arrow column buffers from records that ``arrow`` has located and split.

What ``arrow.locate`` and ``arrow.split`` found is trusted here: places and pairs must come from the
same bytes.  Lengths are taken from them, not read again, so bytes that change in between (a segment
somebody still writes to) change values but never what is read or written.

Names with an underscore are C constants and C functions in the compiled build.
"""

from __future__ import annotations

from typing import Any

from contrailmq._native import raw

_WIDTH = 7
_WRAP = 0x100000000
_I64_MAX = 0x7FFFFFFFFFFFFFFF


def _u32(data: Any, at: int) -> int:
    first = data[at]
    return (first << 24) | (data[at + 1] << 16) | (data[at + 2] << 8) | data[at + 3]  # type: ignore[no-any-return]


def _i32(data: Any, at: int) -> int:
    value = _u32(data, at)
    return value - _WRAP if value > 0x7FFFFFFF else value


def _i64(data: Any, at: int) -> int:
    high = _i32(data, at)
    low = _u32(data, at + 4)
    return (high << 32) | low


def _same(data: Any, first: int, second: int, size: int) -> bool:
    for index in range(size):
        if data[first + index] != data[second + index]:
            return False
    return True


def fill_i32(data: Any, places: Any, column: int, shift: int, out: Any) -> None:
    """A 4-byte number ``shift`` bytes behind one part of each record."""
    _require(len(places), len(out), column)
    for index in range(len(out)):
        out[index] = _i32(data, places[index * _WIDTH + column] + shift)


def fill_i64(data: Any, places: Any, column: int, shift: int, scale: int, out: Any) -> None:
    """An 8-byte number ``shift`` bytes behind one part of each record, times ``scale``.

    What would be too large then is as large as can be.
    """
    _require(len(places), len(out), column)
    top = _I64_MAX // scale
    for index in range(len(out)):
        value = _i64(data, places[index * _WIDTH + column] + shift)
        if scale != 1:
            value = min(max(value, -top), top)
        out[index] = value * scale


def fill_spans(data: Any, places: Any, column: int, offsets: Any, out: Any) -> None:
    """The bytes from one part of each record to the next part: bodies or topics."""
    _require(len(places), len(offsets) - 1, column + 1)
    size = 0
    room = len(out)
    source = raw.at_address(data)
    target = raw.at_address(out)
    for index in range(len(offsets) - 1):
        offsets[index] = size
        start = places[index * _WIDTH + column]
        length = places[index * _WIDTH + column + 1] - start
        if length > room - size:
            raise ValueError("no room for the bytes of a column")
        raw.copy_bytes(target, size, source, start, length)
        size += length
    offsets[len(offsets) - 1] = size


def fill_names(data: Any, pairs: Any, offsets: Any, out: Any) -> None:
    """The names of all pairs."""
    _fill_pairs(data, pairs, 0, offsets, out)


def fill_values(data: Any, pairs: Any, offsets: Any, out: Any) -> None:
    """The values of all pairs."""
    _fill_pairs(data, pairs, 1, offsets, out)


def _fill_pairs(data: Any, pairs: Any, part: int, offsets: Any, out: Any) -> None:
    size = 0
    room = len(out)
    source = raw.at_address(data)
    target = raw.at_address(out)
    if len(pairs) < 3 * (len(offsets) - 1):
        raise ValueError(f"{len(pairs)} numbers are not {len(offsets) - 1} pairs")
    for index in range(len(offsets) - 1):
        offsets[index] = size
        start = pairs[3 * index + part]
        # A name ends one byte before its value begins.
        length = pairs[3 * index + part + 1] - start - 1 + part
        if length > room - size:
            raise ValueError("no room for the bytes of a column")
        raw.copy_bytes(target, size, source, start, length)
        size += length
    offsets[len(offsets) - 1] = size


def find_pairs(data: Any, firsts: Any, pairs: Any, name: Any, hits: Any) -> tuple[int, int]:
    """The pair of each record that has this name, -1 without one, into ``hits``.

    Answers the bytes of all values found, and the number of records without one.
    """
    count = len(firsts) - 1
    wanted = len(name)
    size = 0
    gaps = 0
    if len(hits) < count:
        raise ValueError(f"no room for {count} numbers")
    for index in range(count):
        found = -1
        for pair in range(firsts[index], firsts[index + 1]):
            start = pairs[3 * pair]
            if pairs[3 * pair + 1] - 1 - start != wanted:
                continue
            step = 0
            while step < wanted and data[start + step] == name[step]:
                step += 1
            if step == wanted:
                found = pair
                break
        hits[index] = found
        if found < 0:
            gaps += 1
        else:
            size += pairs[3 * found + 2] - pairs[3 * found + 1]
    return size, gaps


def find_values(
    data: Any, places: Any, count: int, name: Any, pairs: Any, hits: Any
) -> tuple[int, int]:
    """What ``find_pairs`` finds, of records whose property strings were not split.

    The pair of a record is put into ``pairs`` under the record's own number.
    """
    wanted = len(name)
    size = 0
    gaps = 0
    _require(len(places), count, 5)
    if len(hits) < count or len(pairs) < 3 * count or wanted == 0:
        raise ValueError(f"no room for {count} numbers")
    source = raw.at_address(data)
    known = raw.at_address(name)
    for index in range(count):
        start = places[index * _WIDTH + 4] + 2
        end = places[index * _WIDTH + 5]
        value = -1
        value_end = -1
        while start < end:
            at = raw.find_byte(source, start, end, 2)
            if at < 0:
                at = end
            if (
                at - start > wanted + 1
                and source[start] == known[0]
                and source[start + wanted] == 1
                and raw.same_bytes(source, start, known, 0, wanted)
            ):
                value = start + wanted + 1
                value_end = at
            start = at + 1
        if value < 0:
            hits[index] = -1
            gaps += 1
            continue
        hits[index] = index
        pairs[3 * index] = value - wanted - 1
        pairs[3 * index + 1] = value
        pairs[3 * index + 2] = value_end
        size += value_end - value
    return size, gaps


def fill_hits(data: Any, pairs: Any, hits: Any, offsets: Any, out: Any) -> None:
    """The values ``find_pairs`` found, as a text column; its gaps are empty."""
    size = 0
    room = len(out)
    source = raw.at_address(data)
    target = raw.at_address(out)
    count = len(offsets) - 1
    if len(hits) < count:
        raise ValueError(f"{len(hits)} numbers for {count} records")
    for index in range(count):
        offsets[index] = size
        pair = hits[index]
        if pair < 0:
            continue
        start = pairs[3 * pair + 1]
        length = pairs[3 * pair + 2] - start
        if length > room - size:
            raise ValueError("no room for the bytes of a column")
        raw.copy_bytes(target, size, source, start, length)
        size += length
    offsets[count] = size


def fill_validity(hits: Any, count: int, validity: Any) -> None:
    """One bit a record: whether ``find_pairs`` found its pair.  All bits must be zero before."""
    if len(hits) < count or len(validity) * 8 < count:
        raise ValueError(f"no room for {count} bits")
    for index in range(count):
        if hits[index] >= 0:
            validity[index >> 3] |= 1 << (index & 7)


def fill_message_ids(data: Any, places: Any, offsets: Any, out: Any) -> int:
    """The offset id of each record; answers the bytes used (32 a record, 56 with IPv6)."""
    count = len(offsets) - 1
    _require(len(places), count, 6)
    room = len(out)
    size = 0
    for index in range(count):
        offsets[index] = size
        slot = index * _WIDTH
        host = places[slot + 6] + 8
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


def fill_born_hosts(data: Any, places: Any, offsets: Any, out: Any) -> int:
    """``ip:port`` of each producer; answers the bytes used (at most 27 a record, 51 with IPv6)."""
    count = len(offsets) - 1
    _require(len(places), count, 6)
    room = len(out)
    size = 0
    before = -1
    before_end = -1
    for index in range(count):
        at = places[index * _WIDTH] + 48
        end = places[index * _WIDTH + 6] - 4
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
        port = _i32(data, end)
        if port < 0:
            out[size] = 45
            size += 1
            port = -port
        size = _decimal(port, out, size)
    offsets[count] = size
    return size


def _same_host(data: Any, first: int, first_end: int, second: int, second_end: int) -> bool:
    size = second_end - second
    return first_end - first == size and _same(data, first, second, size + 4)


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


def _require(numbers: int, count: int, column: int) -> None:
    if numbers < count * _WIDTH or column < 0 or column >= _WIDTH:
        raise ValueError(f"{numbers} numbers are not {count} places")
