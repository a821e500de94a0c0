"""Bodies and headers of requests that would take long to read are refused, with the numbers."""

from __future__ import annotations

import pytest

from contrailmq.errors import RemoteProtocolError
from contrailmq.protocol.bodies.body import (
    REQUEST_SIZE_MAX,
    REQUEST_VALUES_MAX,
    TOLERANT_VALUES_MAX,
)
from contrailmq.protocol.bodies.heartbeat import ConsumerData, HeartbeatData, SubscriptionData
from contrailmq.protocol.command import HEADER_SIZE_MAX, LOOSE_VALUES_MAX, decode


def beat(count: int) -> HeartbeatData:
    subscriptions = [SubscriptionData(topic=f"T{number}") for number in range(count)]
    consumer = ConsumerData(group_name="g", subscription_data_set=subscriptions)
    return HeartbeatData(client_id="c", consumer_data_set=[consumer])


def test_large_standard_bodies_are_read() -> None:
    for count in (1, 100, 900):
        value = beat(count)
        assert HeartbeatData.decode_request(value.encode()) == value
    aliased = beat(900).encode().replace(b'"clientID"', b'"clientId"')
    assert HeartbeatData.decode_request(aliased) == beat(900)


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":' * REQUEST_VALUES_MAX,
        b"[" * (REQUEST_VALUES_MAX + 1),
        b'{"consumerDataSet":[' + b"{}," * REQUEST_VALUES_MAX + b"{}]}",
        b'{"clientID":"' + b"x" * REQUEST_SIZE_MAX + b'"}',
        b'{"clientID":"x",a:[' + b"1," * TOLERANT_VALUES_MAX + b"1]}",
        b"{" + b",".join(b"%d:1" % number for number in range(TOLERANT_VALUES_MAX)) + b"}",
    ],
)
def test_bodies_that_take_long_are_refused(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match=r"at most|must be"):
        HeartbeatData.decode_request(body)


def frame(header: bytes, *, kind: int = 0) -> bytes:
    return ((kind << 24) | len(header)).to_bytes(4, "big") + header


def test_headers_that_take_long_are_refused() -> None:
    loose = b'{"code":1,extFields:{' + b"a:1," * LOOSE_VALUES_MAX + b"a:1}}"
    with pytest.raises(RemoteProtocolError, match=f"at most {LOOSE_VALUES_MAX}"):
        decode(frame(loose))
    assert decode(frame(b'{"code":1,extFields:{' + b"a:1," * 1000 + b"a:1}}")).fields == {"a": "1"}
    for kind in (0, 1):
        with pytest.raises(RemoteProtocolError, match=f"at most {HEADER_SIZE_MAX}"):
            decode(frame(b" " * HEADER_SIZE_MAX, kind=kind))
