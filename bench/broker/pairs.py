"""A primary with its replica, ours beside Java's: rate, p99, processor time, catching up.

    python -m bench broker.pairs [--seconds 3] [--rounds 3] [--java 4.9.7|none] [--catch-up MB]

Primary, replica and load share the machine.  One pair runs at a time, ours and Java's in turns; the
medians of the rounds are compared.  ``async`` pairs acknowledge before the replica has a message,
``sync`` pairs after.  Catching up: the replica is away while the primary takes messages; the rate
is that from its first byte to its last.
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.broker.brokers import BrokerProcess, JavaBroker, OurBroker
from bench.broker.cases import QUEUES, send
from bench.broker.load import OUT, build_loadgen, call, settle

Row = dict[str, Any]
CASES = (
    ("async", "16 × 64", send(16, 64), 3.0),
    ("sync", "64 × 1", send(64, 1), 1.5),
    ("sync", "16 × 64", send(16, 64), 2.5),
)
WARM_S = 4.0
CONF = {"brokerIP2": "127.0.0.1", "mappedFileSizeCommitLog": str(256 * 1024 * 1024)}


class OurReplica(BrokerProcess):
    """``contrail broker`` as a replica."""

    name = "contrailmq replica"

    def _start(self) -> None:
        conf = {
            "brokerName": "broker-a",
            "brokerIP1": "127.0.0.1",
            "listenPort": str(self.port),
            "storePathRootDir": str(self.store),
            **self.conf,
        }
        path = self.home / "broker.conf"
        path.write_text("".join(f"{key}={value}\n" for key, value in conf.items()))
        self._spawn([sys.executable, "-m", "contrailmq.main", "broker", "-c", str(path)])


def main(arguments: list[str]) -> int:
    """Measure and print; the rows go to bench/out/pairs.jsonl."""
    parser = argparse.ArgumentParser(prog="python -m bench broker.pairs", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--java", default="4.9.7", choices=("4.9.7", "none"))
    parser.add_argument("--catch-up", type=int, default=1000, metavar="MB")
    options = parser.parse_args(arguments)
    loadgen = build_loadgen()
    kinds = ["ours"] if options.java == "none" else ["ours", options.java]
    rows: dict[tuple[str, str, str], list[Row]] = {}
    with tempfile.TemporaryDirectory(prefix="contrail-pairs-") as home:
        for _ in range(options.rounds):
            for mode in ("async", "sync"):
                for kind in kinds:
                    with _pair(kind, mode, Path(home)) as pair:
                        for case_mode, name, load, _ in CASES:
                            if case_mode == mode:
                                row = _sample(pair, loadgen, load, options.seconds)
                                rows.setdefault((mode, name, kind), []).append(row)
        found = [_summary(key, samples) for key, samples in rows.items()]
        found += [
            _catch_up(kind, Path(home), loadgen, options.catch_up)
            for kind in (kinds if options.catch_up else ())
        ]
    OUT.mkdir(parents=True, exist_ok=True)
    with (OUT / "pairs.jsonl").open("w", encoding="utf-8") as out:
        out.writelines(json.dumps(row) + "\n" for row in found)
    _show(found, kinds)
    return 0


@contextmanager
def _pair(kind: str, mode: str, home: Path) -> Iterator[tuple[BrokerProcess, BrokerProcess]]:
    role = "SYNC_MASTER" if mode == "sync" else "ASYNC_MASTER"
    first = {**CONF, "brokerRole": role, "brokerId": "0"}
    primary: BrokerProcess
    replica: BrokerProcess
    if kind == "ours":
        primary = OurBroker(home / "primary", first)
    else:
        primary = JavaBroker(home / "primary", first, kind)
    primary.conf["haListenPort"] = str(primary.port + 1)
    with primary:
        second = {
            **CONF,
            "brokerRole": "SLAVE",
            "brokerId": "1",
            "namesrvAddr": f"127.0.0.1:{primary.namesrv_port}",
        }
        if kind == "ours":
            replica = OurReplica(home / "replica", second)
        else:
            time.sleep(5)  # its replica asks for the primary once, when it registers
            replica = JavaBroker(home / "replica", second, kind)
        replica.conf["haListenPort"] = str(replica.port + 1)
        with replica:
            _wait_in_step(primary, replica)
            yield primary, replica


def _sample(
    pair: tuple[BrokerProcess, BrokerProcess], loadgen: Path, load: tuple[str, ...], seconds: float
) -> Row:
    primary, replica = pair
    target = ["-t", "bench", "-q", str(QUEUES), "-T", "1"]
    call(loadgen, primary, [*load, *target, "-s", str(WARM_S)])
    _wait_in_step(primary, replica)
    settle()
    before = primary.cpu_s(), replica.cpu_s()
    row = call(loadgen, primary, [*load, *target, "-s", str(seconds)])
    _wait_in_step(primary, replica)
    count = max(row["messages"], 1)
    row["primary_us"] = (primary.cpu_s() - before[0]) / count * 1e6
    row["replica_us"] = (replica.cpu_s() - before[1]) / count * 1e6
    return row


def _catch_up(kind: str, home: Path, loadgen: Path, size_mb: int) -> Row:
    with _pair(kind, "async", home) as (primary, replica):
        load = [*send(4, 64, 4000), "-t", "bench", "-q", str(QUEUES), "-T", "1"]
        call(loadgen, primary, [*load, "-s", "1"])
        _wait_in_step(primary, replica)
        replica.stop()
        begin = _end(primary)
        while _end(primary) - begin < size_mb * 1_000_000:
            call(loadgen, primary, [*load, "-s", "2"])
        end = _end(primary)
        before = primary.cpu_s()
        replica.start()
        while _end(replica) <= begin:
            time.sleep(0.005)
        began, first = time.perf_counter(), _end(replica)
        while _end(replica) < end:
            time.sleep(0.01)
        took = max(time.perf_counter() - began, 1e-6)
        return {
            "mode": "catch-up",
            "case": f"{size_mb} MB",
            "kind": kind,
            "mb_per_s": (end - first) / took / 1e6,
            "replica_cpu_s": replica.cpu_s(),
            "primary_cpu_s": primary.cpu_s() - before,
        }


def _wait_in_step(primary: BrokerProcess, replica: BrokerProcess) -> None:
    call_end = time.monotonic() + 120
    while _end(primary) != _end(replica) or _end(replica) < 0:
        if time.monotonic() > call_end:
            raise SystemExit(f"{replica.name} is not in step: {_end(primary)} {_end(replica)}")
        time.sleep(0.02)


def _end(broker: BrokerProcess) -> int:
    """Where the log of a broker ends (its runtime figures)."""
    head = json.dumps({"code": 28, "language": "PYTHON", "version": 399, "opaque": 1, "flag": 0})
    text = head.encode()
    try:
        with socket.create_connection(("127.0.0.1", broker.port), 5) as peer:
            peer.sendall(struct.pack(">II", 4 + len(text), len(text)) + text)
            size = struct.unpack(">I", peer.recv(4, socket.MSG_WAITALL))[0]
            answer = peer.recv(size, socket.MSG_WAITALL)
    except OSError:
        return -1
    body = answer[4 + (struct.unpack(">I", answer[:4])[0] & 0xFFFFFF) :]
    return int(json.loads(body)["table"]["commitLogMaxOffset"]) if body else -1  # still starting


def _summary(key: tuple[str, str, str], samples: list[Row]) -> Row:
    mode, name, kind = key
    names = ("messages_per_s", "p50_us", "p99_us", "primary_us", "replica_us", "errors")
    medians = {one: statistics.median(sample[one] for sample in samples) for one in names}
    return {"mode": mode, "case": name, "kind": kind, **medians}


def _show(found: list[Row], kinds: list[str]) -> None:
    aims = {(mode, name): aim for mode, name, _, aim in CASES}
    for row in found:
        print(json.dumps(row))
    for (mode, name), aim in aims.items():
        rates = {
            row["kind"]: row["messages_per_s"]
            for row in found
            if (row["mode"], row["case"]) == (mode, name)
        }
        if len(kinds) == 2:
            ratio = rates["ours"] / rates[kinds[1]]
            print(f"{mode} {name}: {ratio:.2f} times Java's rate; the aim is {aim}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
