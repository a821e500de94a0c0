"""The lanes and the handlers read the same declarations, and come to the same verdict.

There is no list of names here: the names are all those the protocol reserves, and each of them
changed a little.  A property that becomes special tomorrow is tested tomorrow, without a line in
this file.
"""

from __future__ import annotations

import pytest

from contrailmq._native import names
from contrailmq._native.lanes.fields import SendProperties
from contrailmq._native.lanes.send import SendLane
from contrailmq._native.store.log import LogWriter, Origin
from contrailmq.broker.handlers.send import is_ordinary
from contrailmq.broker.lanes.tables import PULL_FIELDS, SEND_FIELDS, SEND_PROPERTIES
from contrailmq.protocol.command import Command, decode
from contrailmq.protocol.header import Header
from contrailmq.protocol.headers.pull import PullMessageRequest
from contrailmq.protocol.headers.send import SendMessageRequestV2
from contrailmq.protocol.properties import (
    BROKER_PROPERTIES,
    PROPERTY_UNIQUE_KEY,
    PROPERTY_WAIT,
    RESERVED_PROPERTIES,
    decode_properties_text,
)
from testkit.lanes import FIELDS, HOST, OneTopic, lane_inputs

UNIQUE = f"{PROPERTY_UNIQUE_KEY}\x017F0001\x02"


def _neighbours(name: str) -> list[str]:
    """The name, and names that a comparison of letters or lengths would take for it."""
    changed = [name[:at] + "~" + name[at + 1 :] for at in range(len(name))]
    return [name, name[:-1], name + "X", "X" + name, name.lower(), *changed]


NAMES = sorted({near for name in RESERVED_PROPERTIES for near in _neighbours(name)} - {""})


LOG = LogWriter(1 << 16)
LANE = SendLane(OneTopic(), lane_inputs(LOG))


def _taken(text: str) -> Command | None:
    """The answer to a message with these properties, if the lane takes it."""
    LOG.attach(bytearray(1 << 12), 4096, 0)
    frame = Command(310, fields={**FIELDS, "i": text}, body=b"x", opaque=1).encode()
    if not LANE.take(bytearray(frame), 0, len(frame), Origin(HOST, HOST, b"")):
        return None
    return decode(memoryview(LANE.answers.take())[4:])


def _is_ordinary(text: str) -> bool:
    return is_ordinary(SendProperties(SEND_PROPERTIES).look(text.encode()))


def test_the_names_are_worth_the_test() -> None:
    assert len(RESERVED_PROPERTIES) > 50
    assert set(BROKER_PROPERTIES) < RESERVED_PROPERTIES


def test_lane_and_handler_agree_on_every_reserved_name() -> None:
    differ = [
        name
        for name in NAMES
        if name != PROPERTY_UNIQUE_KEY
        for text in (f"{UNIQUE}{name}\x011\x02", f"{name}\x011\x02{UNIQUE}", f"{UNIQUE}{name}\x011")
        if (_taken(text) is not None) != _is_ordinary(text)
    ]
    assert differ == []


def test_both_verdicts_occur() -> None:
    # A lane that takes nothing, or everything, would make the test above worth nothing.
    others = RESERVED_PROPERTIES - {PROPERTY_UNIQUE_KEY}
    taken = {name for name in others if _taken(f"{UNIQUE}{name}\x011\x02")}
    assert others - taken == set(BROKER_PROPERTIES)


@pytest.mark.parametrize(
    "text",
    [
        UNIQUE, "a\x01b\x02" + UNIQUE, UNIQUE[:-1], f"{UNIQUE}UNIQ_KEY\x01SECOND\x02",
        f"{UNIQUE}UNIQ_KEY\x01\x02", f"{UNIQUE}UNIQ_KEX\x01x\x02", f"{UNIQUE}\x02a\x01b",
        f"{UNIQUE}no separator\x02", f"{UNIQUE}a\x01b\x01c\x02", f"{UNIQUE}WAIT\x01false\x02",
    ],
)  # fmt: skip
def test_the_unique_key_is_the_one_every_reader_of_the_record_finds(text: str) -> None:
    properties = SendProperties(SEND_PROPERTIES)
    assert is_ordinary(properties.look(text.encode()))
    key = decode_properties_text(text)[PROPERTY_UNIQUE_KEY]
    assert properties.key(text.encode()).decode() == key
    answer = _taken(text)
    assert answer is None or answer.fields["transactionId"] == key


def test_a_table_has_the_names_it_was_made_of_and_no_others() -> None:
    meanings = dict.fromkeys(BROKER_PROPERTIES, names.ACTED_ON)
    meanings |= {PROPERTY_UNIQUE_KEY: names.UNIQUE_KEY, PROPERTY_WAIT: names.WAIT}
    for name in NAMES:
        text = b"-" + name.encode() + b"-"
        expected = meanings.get(name, names.UNKNOWN)
        assert names.find(SEND_PROPERTIES, text, 1, len(text) - 2) == expected, name
    assert names.find(SEND_PROPERTIES, b"x" * 300, 0, 300) == names.UNKNOWN
    assert names.find(SEND_PROPERTIES, b"", 0, 0) == names.UNKNOWN


@pytest.mark.parametrize(
    ("table", "header", "unread"),
    [
        (
            SEND_FIELDS,
            SendMessageRequestV2,
            # Of a topic that is not there yet, of a retry, of a route over a proxy.
            {"c", "d", "l", "n", "lo", "ns", "nsd", "oway"},
        ),
        (
            PULL_FIELDS,
            PullMessageRequest,
            # Of a pull that waits; of proxies, which bound an answer otherwise.
            {"suspendTimeoutMillis", "maxMsgBytes", "requestSource", "proxyFrowardClientId",
             "lo", "ns", "nsd", "bname", "oway"},
        ),
    ],
)  # fmt: skip
def test_a_lane_reads_every_field_of_a_header_or_it_is_named_here(
    table: bytes, header: type[Header], unread: set[str]
) -> None:
    known = {
        name
        for name in header.wire_names()
        if names.find(table, name.encode(), 0, len(name)) != names.UNKNOWN
    }
    assert set(header.wire_names()) - known == unread


@pytest.mark.parametrize("name", ["", "x" * (names.SIZE_MAX + 1)])
def test_a_name_that_no_lookup_could_find_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be packed"):
        names.pack({name: names.ACTED_ON})
