"""Strangers on many connections cannot take the broker's memory: the worst are closed first."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable

import pytest

from contrailmq.protocol.command import Command
from testkit.victim import Probe, Victim, call, pull_request, send_request

MIB = 1024 * 1024
SMALL = (40, 48, 320)  # connections, netMemorySizeMax in MiB, all memory in MiB
LARGE = pytest.param((1000, 192, 512), marks=[pytest.mark.slow, pytest.mark.timeout(300)])
BUSY_S = 1.0  # p99 of others on a busy machine; of the large runs it is only printed


def flood(victim: Victim, count: int, data: bytes, *, seconds: float) -> tuple[int, int]:
    """Write the same to many connections that never read; the most memory seen, who was closed."""
    streams = [victim.connect() for _ in range(count)]
    left = {stream: memoryview(data) for stream in streams}
    most, closed, end = 0, 0, time.monotonic() + seconds
    try:
        for stream in streams:
            stream.setblocking(False)
        looked = 0.0
        while left and time.monotonic() < end:
            moved = False
            for stream, rest in list(left.items()):
                try:
                    left[stream] = rest[stream.send(rest[:MIB]) :]
                    moved = True
                except BlockingIOError:
                    continue
                except ConnectionError:
                    closed += 1
                    del left[stream]
                    continue
                if not left[stream]:
                    del left[stream]
            if time.monotonic() - looked > 0.05:
                looked = time.monotonic()
                most = max(most, victim.memory())
            if not moved:
                time.sleep(0.01)
        time.sleep(0.3)
        most = max(most, victim.memory())
        for stream in streams:
            with contextlib.suppress(BlockingIOError):
                try:
                    closed += stream.recv(1, socket.MSG_PEEK) == b""
                except ConnectionError:
                    closed += 1
    finally:
        for stream in streams:
            stream.close()
    return most, closed


def unfinished(victim: Victim) -> bytes:
    """A frame of 15 MiB without its last byte."""
    return (15 * MIB).to_bytes(4, "big") + bytes(15 * MIB - 1)


def unread(victim: Victim) -> bytes:
    """Pulls of 128 KiB each, whose answers are not read."""
    with contextlib.closing(victim.connect()) as stream:
        for _ in range(4):
            assert call(stream, send_request("Full", body=bytes(64 * 1024))).code == 0
    return b"".join(_numbered(pull_request("Full"), number) for number in range(400))


def held(victim: Victim) -> bytes:
    """Pulls that wait."""
    with contextlib.closing(victim.connect()) as stream:
        assert call(stream, send_request("Held")).code == 0
    request = pull_request("Held", offset=1, wait_ms=60_000)
    return b"".join(_numbered(request, number) for number in range(1000))


def _numbered(command: Command, number: int) -> bytes:
    command.opaque = number
    return bytes(command.encode())


@pytest.mark.parametrize("sizes", [SMALL, LARGE])
@pytest.mark.parametrize("kind", [unfinished, unread, held])
def test_memory_is_bounded_and_others_are_served(
    victims: Callable[..., Victim],
    kind: Callable[[Victim], bytes],
    sizes: tuple[int, int, int],
) -> None:
    count, limit_mib, most_mib = sizes
    victim = victims(netMemorySizeMax=limit_mib * MIB, pullThreadPoolQueueCapacity=1_000_000)
    data = kind(victim)
    with Probe(victim) as probe:
        for _ in range(20):
            probe.send()
        probe.times.clear()
        probe.start(0.01)
        most, closed = flood(victim, count, data, seconds=4 if sizes is SMALL else 30)
    assert set(probe.codes) == {0}
    assert most < most_mib * MIB, f"{most / MIB:.0f} MiB"
    print(
        f"{kind.__name__}: {most / MIB:.0f} MiB, {closed} closed, p99 {1000 * probe.p99_s:.1f} ms"
    )
    assert probe.p99_s < BUSY_S or sizes is not SMALL
    if kind is unfinished:
        assert "connections closed for their memory" in victim.log()
    assert closed or kind is not unfinished
    assert victim.stop() == 0
