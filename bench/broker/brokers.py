"""Brokers as processes to be measured: ours and the Java one, each in a directory of its own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

from bench.memory import PeakAnonymous, status_kb

ROOT = Path(__file__).resolve().parents[2]
JAVA_OPENS = (
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
)
BOOT_S = 60.0
STOP_S = 60.0
_HEADER = b'{"code":26,"flag":0,"language":"JAVA","opaque":1,"version":407}'  # its configuration
_PROBE = (len(_HEADER) + 4).to_bytes(4, "big") + len(_HEADER).to_bytes(4, "big") + _HEADER
TICKS = os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    """A port that is free now, and whose neighbours two below and one above are, too."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        try:
            for neighbour in (port - 2, port + 1):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", neighbour))
        except OSError:
            continue
        return port


class BrokerProcess:
    """A running broker with its name server; leaving the block stops it and deletes its store."""

    name = ""

    def __init__(self, home: Path, conf: dict[str, str]) -> None:
        self.home = home
        self.conf = conf
        self.port = free_port()
        self.namesrv_port = free_port()
        self.processes: list[subprocess.Popen[bytes]] = []
        self.start_s = 0.0

    def __enter__(self) -> Self:
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir(parents=True)
        began = time.perf_counter()
        self._start()
        self._wait_until_ready()
        self.start_s = time.perf_counter() - began
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)

    def restart(self) -> None:
        """Stop cleanly and start again over the same store; returns when it serves."""
        self.stop()
        self.start()

    def start(self) -> None:
        """Start again over the same store; returns when it serves."""
        self._start()
        self._wait_until_ready()

    def stop(self) -> None:
        """Stop cleanly, within a bound; its store stays."""
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes.clear()

    def _start(self) -> None:
        raise AssertionError("a kind of broker says how it starts")

    def _wait_until_ready(self) -> None:
        """Until it answers a request."""
        deadline = time.monotonic() + BOOT_S
        while time.monotonic() < deadline:
            if _answers(self.port):
                return
            if any(process.poll() is not None for process in self.processes):
                break
            time.sleep(0.005)
        log = (self.home / "log").read_text(errors="replace")[-2000:]
        raise SystemExit(f"{self.name} did not start within {BOOT_S:.0f} s:\n{log}")

    def _spawn(self, command: list[str]) -> None:
        with (self.home / "log").open("ab") as log:
            self.processes.append(
                subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            )

    @property
    def store(self) -> Path:
        """Where its messages are."""
        return self.home / "store"

    def cpu_s(self) -> float:
        """Processor seconds used so far, by all its processes."""
        total = 0
        for process in self.processes:
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
        return total / TICKS

    @property
    def pids(self) -> list[int]:
        """Its processes."""
        return [process.pid for process in self.processes]

    def anonymous(self) -> int:
        """Bytes of memory that are its own now."""
        found = (status_kb(pid, "RssAnon") for pid in self.pids)
        return sum(line.get("RssAnon", 0) for line in found) * 1024

    def open_files(self) -> int:
        """How many files and sockets it has open."""
        return sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in self.pids)

    def watch(self) -> PeakAnonymous:
        """A block during which its memory is looked at often."""
        return PeakAnonymous(self.pids)

    def resident_peak(self) -> int:
        """The most it ever had in memory, in bytes, mapped files of the store included."""
        found = (status_kb(pid, "VmHWM") for pid in self.pids)
        return sum(line.get("VmHWM", 0) for line in found) * 1024


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as peer:
            peer.sendall(_PROBE)
            return len(peer.recv(4)) > 0
    except OSError:
        return False


class OurBroker(BrokerProcess):
    """``contrail up``: name server and broker in one process."""

    name = "contrailmq"

    def _start(self) -> None:
        conf = self.home / "broker.conf"
        conf.write_text("".join(f"{key}={value}\n" for key, value in self.conf.items()))
        self._spawn(
            [
                sys.executable, "-m", "contrailmq.main", "up", "--host", "127.0.0.1",
                "--port", str(self.port), "--namesrv-port", str(self.namesrv_port),
                "--store", str(self.store), "-c", str(conf),
            ]
        )  # fmt: skip


class JavaBroker(BrokerProcess):
    """Apache RocketMQ with a heap of 2 GB and its own defaults."""

    version = "4.9.7"

    def __init__(self, home: Path, conf: dict[str, str], version: str) -> None:
        super().__init__(home, conf)
        self.version = version
        self.name = f"rocketmq-{version}"

    def _start(self) -> None:
        sys.path.insert(0, str(ROOT / "tests"))
        from testkit.peer import jars

        libraries = f"{jars(self.version)}/*"
        conf = {
            "brokerClusterName": "DefaultCluster",
            "brokerName": "broker-a",
            "brokerIP1": "127.0.0.1",
            "listenPort": str(self.port),
            "namesrvAddr": f"127.0.0.1:{self.namesrv_port}",
            "storePathRootDir": str(self.store),
            "storePathCommitLog": str(self.store / "commitlog"),
            **self.conf,
        }
        (self.home / "conf").mkdir(exist_ok=True)
        (self.home / "broker.conf").write_text("".join(f"{k}={v}\n" for k, v in conf.items()))
        (self.home / "namesrv.conf").write_text(f"listenPort={self.namesrv_port}\n")
        quiet = "<configuration><root level='OFF'/></configuration>"
        for name in ("logback_namesrv.xml", "logback_broker.xml", "rmq.namesrv.logback.xml",
                     "rmq.broker.logback.xml"):  # fmt: skip
            (self.home / "conf" / name).write_text(quiet)
        os.environ["ROCKETMQ_HOME"] = str(self.home)
        common = ["java", *JAVA_OPENS, f"-Duser.home={self.home}"]
        packages = "org.apache.rocketmq"
        self._spawn(
            [*common, "-Xms128m", "-Xmx128m", "-cp", libraries,
             f"{packages}.namesrv.NamesrvStartup", "-c", str(self.home / "namesrv.conf")]
        )  # fmt: skip
        self._spawn(
            [*common, "-Xms2g", "-Xmx2g", "-XX:MaxDirectMemorySize=4g", "-cp", libraries,
             f"{packages}.broker.BrokerStartup", "-c", str(self.home / "broker.conf")]
        )  # fmt: skip
