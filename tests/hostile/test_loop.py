"""No request of a stranger makes the others wait: SQL by the thousand, JSON of all kinds."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from contrailmq.protocol.bodies.heartbeat import ConsumerData, HeartbeatData, SubscriptionData
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from testkit.victim import Probe, Victim, call

WAIT_S_MAX = 1.0  # on a busy machine; it was 5 to 60 s before there were bounds
MIB = 1024 * 1024


def sql_beat(count: int, terms: int) -> bytes:
    text = " OR ".join(f"a{number % 7} = {number}" for number in range(terms))
    subscriptions = [
        SubscriptionData(
            topic=f"T{number}", sub_string=f"b = {number} OR {text}", expression_type="SQL92"
        )
        for number in range(count)
    ]
    consumer = ConsumerData(group_name="g", subscription_data_set=subscriptions)
    return HeartbeatData(client_id="c", consumer_data_set=[consumer]).encode()


BODIES = {
    "2,000 filters": lambda: sql_beat(2000, 300),
    "200 filters within the bounds": lambda: sql_beat(200, 250),
    "nested objects": lambda: b'{"a":' * (3 * MIB),
    "a list in the dialect": lambda: b"{a:[" + b"1," * (7 * MIB) + b"1]}",
    "an object in the dialect": lambda: b"{" + b"1:1," * (3 * MIB) + b"1:1}",
    "empty objects": lambda: b'{"consumerDataSet":[' + b"{}," * (5 * MIB) + b"{}]}",
    "keys cut off": lambda: b"{" + b'"key":1,' * MIB,
}


@pytest.mark.parametrize("name", BODIES)
def test_a_body_does_not_hold_the_loop(victims: Callable[..., Victim], name: str) -> None:
    victim = victims()
    body = BODIES[name]()
    with Probe(victim) as probe, contextlib.closing(victim.connect()) as stranger:
        probe.send()
        probe.times.clear()
        probe.start()
        stranger.settimeout(30)
        for code in (RequestCode.HEART_BEAT, RequestCode.LOCK_BATCH_MQ):
            assert call(stranger, Command(code, opaque=1, body=body)).opaque == 1
    assert set(probe.codes) == {0}
    assert max(probe.times) < WAIT_S_MAX, victim.log()
    assert victim.stop() == 0


def test_headers_do_not_hold_the_loop(victims: Callable[..., Victim]) -> None:
    victim = victims()
    with Probe(victim) as probe:
        probe.send()
        probe.times.clear()
        probe.start()
        for header in (b'{"code":34,"extFields":{' + b'"key":"v",' * (3 * MIB // 10), b"{a:" * MIB):
            with contextlib.closing(victim.connect()) as stranger:
                stranger.settimeout(30)
                size = len(header)
                stranger.sendall((4 + size).to_bytes(4, "big") + size.to_bytes(4, "big"))
                with contextlib.suppress(ConnectionError):
                    stranger.sendall(header)
                    assert stranger.recv(1) == b"", "the connection is closed"
    assert max(probe.times) < WAIT_S_MAX, victim.log()
    assert victim.stop() == 0
