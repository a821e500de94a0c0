"""Unique keys, offset ids, hosts, and the names of topics and groups."""

from __future__ import annotations

import datetime
import random

import pytest

from contrailmq.errors import LocalProtocolError, RemoteProtocolError
from contrailmq.protocol import hosts, ids, names
from contrailmq.protocol.properties import (
    find_illegal_property,
    join_keys,
    split_keys,
)


class StandingClock:
    """Shows the time it is given."""

    def __init__(self, now_ms: int) -> None:
        self.value = now_ms

    def now_ms(self) -> int:
        return self.value


def at(year: int, month: int, day: int, zone: datetime.tzinfo) -> int:
    return int(datetime.datetime(year, month, day, tzinfo=zone).timestamp() * 1000)


def keys(clock: StandingClock, zone: datetime.tzinfo, seed: int = 1) -> ids.UniqueIds:
    rng = random.Random(seed)
    return ids.UniqueIds(bytes([10, 20, 30, 40]), clock=clock, pid=70000, rng=rng, zone=zone)


def test_a_unique_key_says_where_and_when_it_was_made() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=8))
    clock = StandingClock(at(2026, 3, 1, zone) + 12_345)
    key = ids.parse_unique_key(keys(clock, zone).next())
    assert key == (bytes([10, 20, 30, 40]), 70000 & 0xFFFF, key.salt, 12_345, 0)


def test_unique_keys_differ() -> None:
    clock = StandingClock(at(2026, 3, 9, datetime.UTC))
    first, second = keys(clock, datetime.UTC, 1), keys(clock, datetime.UTC, 2)
    made = [first.next() for _ in range(65_536)] + [second.next() for _ in range(1000)]
    assert len(set(made)) == len(made)
    assert all(len(key) == 32 and key == key.upper() for key in made)


def test_the_month_of_a_unique_key_follows_the_clock() -> None:
    zone = datetime.UTC
    clock = StandingClock(at(2026, 12, 31, zone))
    generator = keys(clock, zone)
    assert ids.parse_unique_key(generator.next()).month_ms == 30 * 86_400_000
    clock.value = at(2027, 1, 1, zone) + 5
    assert ids.parse_unique_key(generator.next()).month_ms == 5
    clock.value = at(2026, 12, 1, zone) + 6  # the clock was set back
    assert ids.parse_unique_key(generator.next()).month_ms == 6


def test_a_unique_key_of_ipv6_is_longer() -> None:
    clock = StandingClock(at(2026, 3, 9, datetime.UTC))
    generator = ids.UniqueIds(bytes(16), clock=clock, pid=1, rng=random.Random(1))
    key = generator.next()
    assert len(key) == 56
    assert ids.parse_unique_key(key).ip == bytes(16)
    with pytest.raises(ValueError, match="address of 5 bytes"):
        ids.UniqueIds(bytes(5), clock=clock, pid=1, rng=random.Random(1))


@pytest.mark.parametrize("text", ["", "7F", "G" * 32, "7F" * 20, "7F" * 15 + " 7", "é" * 32])
def test_bad_ids_are_refused(text: str) -> None:
    for parse in (ids.parse_offset_message_id, ids.parse_unique_key):
        with pytest.raises(RemoteProtocolError, match="message id"):
            parse(text)


def test_the_hash_of_an_index_key_is_never_negative() -> None:
    assert ids.java_hash("polygenelubricants") == -(2**31)
    assert ids.index_key_hash("polygenelubricants") == 0
    assert ids.tags_code(None) == ids.tags_code("") == 0


@pytest.mark.parametrize("text", ["127.0.0.1:10911", "fd00:1234:0:0:0:0:0:5:41911"])
def test_hosts_as_text_and_bytes(text: str) -> None:
    host = hosts.parse_host(text)
    assert len(host) == (8 if "." in text else 20)
    assert hosts.host_text(host) == text
    assert hosts.host_bytes(*hosts.host_address(host)) == host


def test_the_short_form_of_ipv6_is_read() -> None:
    assert hosts.host_text(hosts.parse_host("[::1]:80")) == "0:0:0:0:0:0:0:1:80"


@pytest.mark.parametrize("text", ["", "localhost:1", "127.0.0.1", "127.0.0.1:x"])
def test_what_is_no_host(text: str) -> None:
    with pytest.raises(LocalProtocolError):
        hosts.parse_host(text)
    with pytest.raises(LocalProtocolError, match="host of 9 bytes"):
        hosts.host_address(bytes(9))


def test_names_of_a_group() -> None:
    assert names.retry_topic("g") == names.retry_topic("%RETRY%g") == "%RETRY%g"
    assert names.dlq_topic("g") == "%DLQ%g"
    assert names.reply_topic("c") == "c_REPLY_TOPIC"
    assert names.pop_retry_topic("t", "g") == "%RETRY%g_t"
    assert names.is_retry_topic("%RETRY%g") and names.is_dlq_topic("%DLQ%g")
    assert not names.is_retry_or_dlq("g")
    assert names.is_system_group("CID_RMQ_SYS_x") and names.is_system_group("TOOLS_CONSUMER")
    assert not names.is_system_group("g")
    assert names.is_lmq("%LMQ%a") and not names.is_lmq(None)


@pytest.mark.parametrize(
    ("topic", "fault"),
    [
        ("t" * 127, None),
        ("t" * 128, "The specified topic is longer than topic max length."),
        ("%RETRY%" + "g" * 248, None),
        ("%DLQ%" + "g" * 251, "The specified topic is longer than topic max length."),
        ("", "The specified topic is blank."),
        (None, "The specified topic is blank."),
        (
            "a.b",
            "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
        ),
    ],
)
def test_what_a_broker_says_of_a_topic(topic: str | None, fault: str | None) -> None:
    assert names.stored_topic_fault(topic) == fault


def test_keys_and_illegal_properties() -> None:
    assert split_keys(join_keys(["a", "b"])) == ["a", "b"]
    assert split_keys("  a  b ") == ["a", "b"]
    assert find_illegal_property({"a": "b"}) is None
    assert find_illegal_property({"a": "b", "": "x"}) == ""
    assert find_illegal_property({"a\x01": "b"}) == "a\x01"
    assert find_illegal_property({"a": "b\x02"}) == "a"
