"""Record a new set of golden data from the real Java system.

    python tests/golden/capture.py wire VERSION OUT.jsonl     frames of a Java producer
    python tests/golden/capture.py store VERSION DIRECTORY     a store directory after a clean stop
    python tests/golden/capture.py frames PORT,PORT OUT.jsonl   frames of any servers, until Ctrl-C

``wire`` and ``frames`` listen to loopback through a packet socket, which needs root on Linux. The
program joins TCP segments to streams, cuts the streams into frames and writes one line per frame
as the files in ``data/wire`` have them. ``frames`` records any scenario: start it, run the Java
client, tool or broker of your choice, and end it.
"""

from __future__ import annotations

import argparse
import base64
import json
import shutil
import signal
import socket
import struct
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from contrailmq.protocol.command import decode  # noqa: E402
from contrailmq.protocol.frame import FrameDecoder  # noqa: E402
from testkit.peer import JavaClient, JavaCluster  # noqa: E402

OUTGOING = 4  # PACKET_OUTGOING: loopback shows each packet twice
MESSAGES = 50


class Segment(NamedTuple):
    """One TCP segment with data."""

    source: int
    target: int
    sequence: int
    data: bytes


def parse_segment(packet: bytes) -> Segment | None:
    """Return the TCP segment of an Ethernet packet; None for others and for those without data."""
    if len(packet) < 54 or packet[12:14] != b"\x08\x00" or packet[23] != socket.IPPROTO_TCP:
        return None
    ip_size = (packet[14] & 15) * 4
    total = struct.unpack_from(">H", packet, 16)[0]
    tcp = 14 + ip_size
    source, target, sequence = struct.unpack_from(">HHI", packet, tcp)
    start = tcp + (packet[tcp + 12] >> 4) * 4
    data = packet[start : 14 + total]
    return Segment(source, target, sequence, data) if data else None


class Stream:
    """The bytes of one direction of a connection, in the order of their sequence numbers."""

    def __init__(self) -> None:
        self._next: int | None = None
        self._early: dict[int, bytes] = {}
        self._decoder = FrameDecoder()

    def add(self, segment: Segment) -> Iterator[bytes]:
        """Take a segment. Yields the frames that are complete now, without their length."""
        if self._next is None:
            self._next = segment.sequence
        self._early[segment.sequence] = segment.data
        while (data := self._early.pop(self._next, None)) is not None:
            self._next = (self._next + len(data)) & 0xFFFFFFFF
            yield from self._decoder.feed(data)


class Recorder:
    """Turns segments into the lines of a capture file."""

    def __init__(self, servers: dict[int, str], write: Callable[[str], Any]) -> None:
        self._servers = servers
        self._write = write
        self._streams: dict[tuple[int, int], Stream] = {}
        self._connections: dict[frozenset[int], int] = {}

    def take(self, segment: Segment) -> None:
        """Note a segment if one of its ports belongs to a server."""
        if segment.source not in self._servers and segment.target not in self._servers:
            return
        way = (segment.source, segment.target)
        stream = self._streams.setdefault(way, Stream())
        number = self._connections.setdefault(frozenset(way), len(self._connections) + 1)
        for frame in stream.add(segment):
            command = decode(frame)
            kind = (
                "response" if command.is_response else "oneway" if command.is_oneway else "request"
            )
            line = {
                "from": self._servers.get(segment.source, "client"),
                "to": self._servers.get(segment.target, "client"),
                "conn": number,
                "kind": "response" if command.is_response else kind,
                "code": command.code,
                "opaque": command.opaque,
                "header": "json" if frame[0] == 0 else "binary",
                "frame": base64.b64encode(len(frame).to_bytes(4, "big") + frame).decode(),
            }
            self._write(json.dumps(line, separators=(",", ":")) + "\n")


def listen(recorder: Recorder, stop: threading.Event) -> None:
    """Hand every segment on loopback to the recorder until ``stop`` is set."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(3)) as packets:
        packets.bind(("lo", 0))
        packets.settimeout(0.2)
        while not stop.is_set():
            try:
                packet, address = packets.recvfrom(1 << 17)
            except TimeoutError:
                continue
            segment = parse_segment(packet) if address[2] != OUTGOING else None
            if segment is not None:
                recorder.take(segment)


def record_wire(version: str, path: Path) -> None:
    """Write the frames of a Java producer and a Java consumer with Java servers."""
    with tempfile.TemporaryDirectory() as home, path.open("w") as out:
        cluster = _cluster(version, Path(home))
        servers = {_port(cluster.namesrv): "namesrv", _port(cluster.broker_address): "broker"}
        stop = threading.Event()
        thread = threading.Thread(target=listen, args=(Recorder(servers, out.write), stop))
        thread.start()
        try:
            _send(version, Path(home), cluster.namesrv)
        finally:
            stop.set()
            thread.join()
            cluster.kill()


def record_store(version: str, path: Path) -> None:
    """Copy the store directory of a Java broker that took messages and was stopped."""
    with tempfile.TemporaryDirectory() as home:
        cluster = _cluster(version, Path(home))
        try:
            _send(version, Path(home), cluster.namesrv)
            cluster.broker.stop()
            shutil.copytree(cluster.broker.store, path)
        finally:
            cluster.kill()


def record_frames(ports: str, path: Path) -> None:
    """Write the frames of servers on these ports until the program is interrupted."""
    stop = threading.Event()
    signal.signal(signal.SIGINT, lambda number, frame: stop.set())
    servers = {int(port): f"server-{port}" for port in ports.split(",")}
    with path.open("w") as out:
        listen(Recorder(servers, out.write), stop)


def _cluster(version: str, home: Path) -> JavaCluster:
    conf = {"mappedFileSizeCommitLog": "1048576", "mappedFileSizeConsumeQueue": "20000"}
    return JavaCluster(version, home / "cluster", serialization="JSON", conf=conf)


def _send(version: str, home: Path, namesrv: str) -> None:
    (home / "client").mkdir()
    client = JavaClient(version, home / "client")
    try:
        messages = [{"body": f"message {n}", "keys": f"k{n}"} for n in range(MESSAGES)]
        client.begin("produce", namesrv=namesrv, topic="Golden", messages=messages).finish()
    finally:
        client.close()


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


def main(argv: list[str]) -> int:
    """Run one of the recordings."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", choices=("wire", "store", "frames"))
    parser.add_argument("source", help="a version (4.9.7, 5.2.0), or ports for frames")
    parser.add_argument("out", type=Path)
    options = parser.parse_args(argv)
    {"wire": record_wire, "store": record_store, "frames": record_frames}[options.what](
        options.source, options.out
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
