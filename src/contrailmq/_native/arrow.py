"""Records into Arrow column buffers: offsets and data, without an object a record.

The caller owns every buffer and knows its size before it is filled.  Three steps:

1. ``locate`` checks each record, and writes where its parts are (a *place* of PLACE_WIDTH numbers)
   and which records are odd: a compressed body, or text that is not UTF-8.  Odd ones have to be
   replaced by the caller before step 2, since Arrow's text columns must be UTF-8.
2. ``split`` finds the pairs of all property strings (a *pair*: name, value, end; the last of equal
   names wins) and counts their bytes.
   ``leave_out`` makes a second list of pairs without those of some names.
3. The functions of ``arrow_fill`` write one column each.

Names with an underscore are C constants and C functions in the compiled build.
"""

from __future__ import annotations

from typing import Any

from contrailmq._native import raw

PLACE_WIDTH = 7
AT = 0
BODY_AT = 1
BODY_END = 2
TOPIC_AT = 3
TOPIC_END = 4
END = 5
STORE_MS_AT = 6
PAIR_WIDTH = 3
SPAN_WIDTH = 3

_WIDTH = 7
_MAGIC_V1 = 0xDAA320A7
_MAGIC_V2 = 0xDAA320AB
_MANY = 64
_RECORD_SIZE_MIN = 91
_QUEUE_OFFSET_AT = 20


def _u32(data: Any, at: int) -> int:
    first = data[at]
    return (first << 24) | (data[at + 1] << 16) | (data[at + 2] << 8) | data[at + 3]  # type: ignore[no-any-return]


def _locate_one(data: Any, at: int, places: Any, slot: int) -> bool:
    limit = len(data)
    if at < 0 or limit - at < 91:
        return False
    size = _u32(data, at)
    magic = _u32(data, at + 4)
    if (magic != _MAGIC_V1 and magic != _MAGIC_V2) or size < 91 or size > limit - at:
        return False
    end = at + size
    flags = data[at + 39]
    place = at + 56
    if flags & 0x10:
        place += 12
    places[slot + 6] = place
    place += 32
    if flags & 0x20:
        place += 12
    if place + 3 > end:
        return False
    length = _u32(data, place - 4)
    if length > end - place:
        return False
    places[slot] = at
    places[slot + 1] = place
    place += length
    places[slot + 2] = place
    if magic == _MAGIC_V1:
        if place + 1 > end:
            return False
        length = data[place]
        place += 1
    else:
        if place + 2 > end:
            return False
        length = (data[place] << 8) | data[place + 1]
        place += 2
    if length > end - place:
        return False
    places[slot + 3] = place
    place += length
    places[slot + 4] = place
    places[slot + 5] = end
    if place + 2 > end:
        return False
    return bool(place + 2 + ((data[place] << 8) | data[place + 1]) == end)


def _is_utf8(data: Any, at: int, end: int) -> bool:
    high = 0
    for index in range(at, end):
        high |= data[index]
    if high < 0x80:
        return True
    while at < end:
        first = data[at]
        if first < 0x80:
            at += 1
            continue
        low = 0x80
        top = 0xBF
        if first < 0xC2 or first > 0xF4:
            return False
        if first < 0xE0:
            more = 1
        elif first < 0xF0:
            more = 2
            if first == 0xE0:
                low = 0xA0
            elif first == 0xED:
                top = 0x9F
        else:
            more = 3
            if first == 0xF0:
                low = 0x90
            elif first == 0xF4:
                top = 0x8F
        if end - at <= more or data[at + 1] < low or data[at + 1] > top:
            return False
        for index in range(2, more + 1):
            if data[at + index] & 0xC0 != 0x80:
                return False
        at += more + 1
    return True


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
            if end - at < _RECORD_SIZE_MIN:
                return count, at
            size = raw.get_u32(source, at)
            if size < _RECORD_SIZE_MIN or size > end - at:
                return count, at
            if raw.get_i64(source, at + _QUEUE_OFFSET_AT) >= limit:
                break
            if count == room:
                raise ValueError(f"no room for more than {room} positions")
            positions[count] = at
            count += 1
            at += size
    return count, -1


def locate(data: Any, positions: Any, places: Any, odd: Any) -> tuple[int, ...]:
    """Find the parts of the records at ``positions``; ``odd`` gets 1 for each odd record.

    Answers the index of the first damaged record (-1 without one), the number of odd ones, the
    bytes of all bodies and topics, how many pairs ``split`` can find at most, and the number of
    IPv6 born hosts and of IPv6 store hosts.
    """
    count = len(positions)
    if len(places) < count * _WIDTH or len(odd) < count:
        raise ValueError(f"no room for {count} places")
    odd_count = 0
    bodies = 0
    topics = 0
    pairs = 0
    born_v6 = 0
    store_v6 = 0
    for index in range(count):
        slot = index * _WIDTH
        if not _locate_one(data, positions[index], places, slot):
            return index, odd_count, bodies, topics, pairs, born_v6, store_v6
        bodies += places[slot + 2] - places[slot + 1]
        topics += places[slot + 4] - places[slot + 3]
        pairs += _separators(data, places[slot + 4] + 2, places[slot + 5]) + 1
        odd[index] = 0
        flags = data[places[slot] + 39]
        born_v6 += (flags >> 4) & 1
        store_v6 += (flags >> 5) & 1
        if (
            flags & 1
            or not _is_utf8(data, places[slot + 3], places[slot + 4])
            or not _is_utf8(data, places[slot + 4] + 2, places[slot + 5])
        ):
            odd[index] = 1
            odd_count += 1
    return -1, odd_count, bodies, topics, pairs, born_v6, store_v6


def _separators(data: Any, at: int, end: int) -> int:
    count = 0
    for index in range(at, end):
        if data[index] == 2:
            count += 1
    return count


def split(data: Any, places: Any, firsts: Any, pairs: Any) -> tuple[int, int, int]:
    """Find the pairs of all property strings.

    ``firsts`` gets where each record's pairs begin, and one number more: the offsets of a map
    column.  Answers the number of pairs and the bytes of their names and values.
    """
    count = len(firsts) - 1
    room = len(pairs) // 3
    if len(places) < count * _WIDTH:
        raise ValueError(f"{len(places)} numbers are not {count} places")
    found = 0
    source = raw.at_address(data)
    for index in range(count):
        slot = index * _WIDTH
        firsts[index] = found
        begin = found
        start = places[slot + 4] + 2
        end = places[slot + 5]
        while start < end:
            at = raw.find_byte(source, start, end, 2)
            if at < 0:
                at = end
            name_end = raw.find_byte(source, start, at, 1)
            if name_end > start and at > name_end + 1:
                if found == room:
                    raise ValueError(f"more than {room} pairs")
                pairs[3 * found] = start
                pairs[3 * found + 1] = name_end + 1
                pairs[3 * found + 2] = at
                found += 1
            start = at + 1
        if found - begin > 1:
            found = _unique(data, pairs, begin, found)
    firsts[count] = found
    names = 0
    values = 0
    for index in range(found):
        names += pairs[3 * index + 1] - 1 - pairs[3 * index]
        values += pairs[3 * index + 2] - pairs[3 * index + 1]
    return found, names, values


def leave_out(
    data: Any, firsts: Any, pairs: Any, names: Any, borders: Any, kept_firsts: Any, kept: Any
) -> tuple[int, int, int]:
    """The pairs whose names are not among some, as ``split`` gives pairs.

    ``names`` are the names to leave out, back to back, shorter ones first; those of ``n`` bytes
    lie between ``borders[n]`` and ``borders[n + 1]``.
    """
    count = len(firsts) - 1
    longest = len(borders) - 2
    total = firsts[count]
    if len(pairs) < 3 * total or len(kept) < 3 * total or len(kept_firsts) <= count:
        raise ValueError(f"no room for {total} pairs of {count} records")
    if longest < 0 or borders[0] < 0 or borders[longest + 1] > len(names):
        raise ValueError(f"{longest} borders are not those of {len(names)} bytes")
    found = 0
    name_size = 0
    value_size = 0
    source = raw.at_address(data)
    known = raw.at_address(names)
    for index in range(count):
        kept_firsts[index] = found
        for pair in range(firsts[index], firsts[index + 1]):
            start = pairs[3 * pair]
            value = pairs[3 * pair + 1]
            length = value - 1 - start
            if length <= longest:
                at = borders[length]
                end = borders[length + 1]
                while at < end and (
                    known[at] != source[start]
                    or known[at + length - 1] != source[start + length - 1]
                    or not raw.same_bytes(known, at, source, start, length)
                ):
                    at += length
                if at < end:
                    continue
            kept[3 * found] = start
            kept[3 * found + 1] = value
            kept[3 * found + 2] = pairs[3 * pair + 2]
            name_size += length
            value_size += pairs[3 * pair + 2] - value
            found += 1
    kept_firsts[count] = found
    return found, name_size, value_size


def _unique(data: Any, pairs: Any, begin: int, end: int) -> int:
    if end - begin > _MANY:
        return _unique_of_many(data, pairs, begin, end)
    kept = begin
    for index in range(begin, end):
        start = pairs[3 * index]
        length = pairs[3 * index + 1] - start
        twin = -1
        for other in range(begin, kept):
            if (
                pairs[3 * other + 1] - pairs[3 * other] == length
                and data[pairs[3 * other]] == data[start]
                and _same(data, pairs[3 * other], start, length)
            ):
                twin = other
                break
        if twin < 0:
            twin = kept
            kept += 1
        pairs[3 * twin] = start
        pairs[3 * twin + 1] = pairs[3 * index + 1]
        pairs[3 * twin + 2] = pairs[3 * index + 2]
    return kept


def _unique_of_many(data: Any, pairs: Any, begin: int, end: int) -> int:
    known: dict[bytes, int] = {}
    kept = begin
    for index in range(begin, end):
        name = bytes(data[pairs[3 * index] : pairs[3 * index + 1]])
        twin = known.get(name, -1)
        if twin < 0:
            twin = kept
            known[name] = kept
            kept += 1
        pairs[3 * twin] = pairs[3 * index]
        pairs[3 * twin + 1] = pairs[3 * index + 1]
        pairs[3 * twin + 2] = pairs[3 * index + 2]
    return kept


def _same(data: Any, first: int, second: int, size: int) -> bool:
    source = raw.at_address(data)
    return raw.same_bytes(source, first, source, second, size)
