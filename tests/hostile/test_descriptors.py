"""A stranger who opens all connections there are stops neither the store nor older peers."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable

from testkit.victim import Probe, Victim, call, send_request

FILES_MAX = 300


def test_a_stranger_with_all_connections(
    victims: Callable[..., Victim],
) -> None:
    victim = victims(
        files_max=FILES_MAX,
        flushIntervalConsumeQueue=100,
        flushConsumeQueueThoroughInterval=200,
    )
    probe = Probe(victim)
    probe.send()
    strangers: list[socket.socket] = []
    try:
        # The system's backlog takes what the broker does not.
        strangers.extend(victim.connect() for _ in range(2 * FILES_MAX))
        for _ in range(20):
            assert probe.send().code == 0
            time.sleep(0.1)
        assert victim.process.poll() is None, victim.log()
        assert "no connection is accepted until one ends" in victim.log()
        assert "fenced" not in victim.log()
    finally:
        for stranger in strangers:
            stranger.close()
    with contextlib.closing(victim.connect()) as late:
        assert call(late, send_request("Probe")).code == 0
    assert "connections are accepted again" in victim.log()
    probe.stop()
    assert victim.stop() == 0, victim.log()
