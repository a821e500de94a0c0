"""The real Java RocketMQ as a test partner: servers, clients and mqadmin on loopback.

The jars come from Maven Central once, into ``~/.cache/contrailmq/peer/VERSION`` (or under
``CONTRAIL_PEER_HOME``).  The Java programs of ``tests/interop/java`` are compiled once for each
version into ``.cache/interop``.  Every virtual machine reads its standard input and ends with it,
so that none outlives a test run, however that ends.
"""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import json
import os
import queue
import random
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]
INTEROP = ROOT / "tests" / "interop"
VERSIONS = ("4.9.7", "5.2.0")
SERIALIZATIONS = ("JSON", "ROCKETMQ")
BOOT_S = 120.0
CALL_S = 60.0

Row = dict[str, Any]

# What Java 17 has to open for RocketMQ's direct buffers; and what makes a machine start quickly.
JVM_FLAGS = (
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Djava.net.preferIPv4Stack=true",
    # Look every second, not every twenty, whether queues have come or gone.
    "-Drocketmq.client.rebalance.waitInterval=1000",
    "-Drocketmq.client.rebalance.minInterval=500",
)


def jars(version: str) -> Path:
    """The directory with the jars of a version; fetched when they are not there yet."""
    home = os.environ.get("CONTRAIL_PEER_HOME", "~/.cache/contrailmq/peer")
    directory = Path(home).expanduser() / version
    with locked(directory.with_suffix(".lock")):
        if not (directory / ".complete").exists():
            command = ["mvn", "-q", "-B", "-f", str(INTEROP / "pom.xml")]
            command += ["dependency:copy-dependencies", f"-Drocketmq.version={version}"]
            _checked([*command, f"-DoutputDirectory={directory}"], timeout_s=900)
            (directory / ".complete").touch()
    return directory


def classes(version: str) -> Path:
    """The directory with our Java programs, compiled for a version."""
    sources = sorted(INTEROP.glob("java/contrail/*.java"))
    sources += sorted(INTEROP.glob(f"java-{version}/contrail/*.java"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    directory = ROOT / ".cache" / "interop" / f"{version}-{digest}"
    with locked(directory.parent / f"{version}.lock"):
        if not directory.exists():
            for old in directory.parent.glob(f"{version}-*"):
                shutil.rmtree(old)
            fresh = directory.with_suffix(".new")
            shutil.rmtree(fresh, ignore_errors=True)  # of a run that was ended
            command = ["javac", "-nowarn", "-encoding", "UTF-8", "-Xlint:none", "-d", str(fresh)]
            _checked([*command, "-cp", f"{jars(version)}/*", *map(str, sources)], timeout_s=120)
            fresh.rename(directory)
    return directory


def java_command(
    version: str, *, home: Path, heap_mb: int, serialization: str = "JSON"
) -> list[str]:
    """The start of every command line: virtual machine, flags, class path."""
    home.mkdir(parents=True, exist_ok=True)
    return [
        "java",
        *JVM_FLAGS,
        f"-Xmx{heap_mb}m",
        f"-Duser.home={home}",
        f"-Drocketmq.serialize.type={serialization}",
        "-cp",
        f"{classes(version)}:{jars(version)}/*",
    ]


def free_port(*, below: int = 0, above: int = 0) -> int:
    """A free port of loopback, with as many free neighbours; below the range of client sockets."""
    rng = random.Random()
    for _ in range(200):
        port = rng.randrange(12000, 32000)
        if all(_is_free(port + step) for step in range(-below, above + 1)):
            return port
    raise RuntimeError("no free port on loopback")


class JavaServer:
    """A Java server process: started by the constructor, up when it returns."""

    def __init__(self, command: list[str], *, home: Path, name: str) -> None:
        self.home = home
        self.name = name
        self.log = home / f"{name}.out"
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start, also again after ``stop`` or ``kill``, and wait until it says that it is up."""
        begin = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                env={**os.environ, "ROCKETMQ_HOME": str(self.home)},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.home,
            )
        deadline = time.monotonic() + BOOT_S
        while b"boot success" not in self.log.read_bytes()[begin:]:
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"{self.name} did not start:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """End it in good order."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a power cut would, as far as processes go."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(60)
        assert process.stdin is not None
        process.stdin.close()


class JavaNameServer(JavaServer):
    """A name server of the original."""

    def __init__(self, version: str, home: Path, *, serialization: str = "JSON") -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        conf = home / "namesrv.conf"
        conf.write_text(f"listenPort={self.port}\n")
        _write_logback(home)
        command = java_command(version, home=home, heap_mb=128, serialization=serialization)
        command += ["contrail.Guarded", "org.apache.rocketmq.namesrv.NamesrvStartup"]
        super().__init__([*command, "-c", str(conf)], home=home, name="namesrv")


class JavaBroker(JavaServer):
    """A broker of the original, registered with any name server, over a new or a given store."""

    def __init__(
        self,
        version: str,
        home: Path,
        *,
        namesrv: str,
        serialization: str = "JSON",
        conf: Mapping[str, str] | None = None,
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.port = free_port(below=2, above=1)
        self.address = f"127.0.0.1:{self.port}"
        self.store = home / "store"
        settings = {
            "brokerClusterName": "DefaultCluster",
            "brokerName": "broker-a",
            "brokerId": "0",
            "brokerIP1": "127.0.0.1",
            "listenPort": str(self.port),
            "namesrvAddr": namesrv,
            "storePathRootDir": str(self.store),
            "storePathCommitLog": str(self.store / "commitlog"),
            "mappedFileSizeCommitLog": str(16 * 1024 * 1024),
            "defaultTopicQueueNums": "4",
            "enablePropertyFilter": "true",
            "diskMaxUsedSpaceRatio": "95",
            **(conf or {}),
        }
        self.store = Path(settings["storePathRootDir"])
        path = home / "broker.conf"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        _write_logback(home)
        command = java_command(version, home=home, heap_mb=512, serialization=serialization)
        command += ["contrail.Guarded", "org.apache.rocketmq.broker.BrokerStartup"]
        self._namesrv = settings["namesrvAddr"]
        super().__init__([*command, "-c", str(path)], home=home, name="broker")

    def start(self) -> None:
        """Start, and wait until the name servers know: a 5.x broker says that it is up before."""
        super().start()
        deadline = time.monotonic() + BOOT_S
        for namesrv in self._namesrv.split(";"):
            while self.address.encode() not in _cluster_info(namesrv):
                if time.monotonic() > deadline:
                    self.kill()
                    raise RuntimeError(f"{self.address} is not registered with {namesrv}")
                time.sleep(0.05)


class JavaCluster:
    """A name server and one broker of the original."""

    def __init__(
        self, version: str, home: Path, *, serialization: str, conf: Mapping[str, str]
    ) -> None:
        self.version = version
        self.name_server = JavaNameServer(version, home / "ns", serialization=serialization)
        self.namesrv = self.name_server.address
        try:
            self.broker = JavaBroker(
                version,
                home / "broker",
                namesrv=self.namesrv,
                serialization=serialization,
                conf=conf,
            )
        except BaseException:
            self.name_server.kill()
            raise
        self.broker_address = self.broker.address

    def kill(self) -> None:
        """End both at once: a good end takes a Java broker many seconds, and nobody reads on."""
        self.broker.kill()
        self.name_server.kill()


class JavaCall:
    """One command of a ``JavaClient`` under way."""

    def __init__(self, client: JavaClient, number: int) -> None:
        self._client = client
        self._number = number
        self._incoming: queue.SimpleQueue[Row | None] = queue.SimpleQueue()
        self.rows: list[Row] = []
        self.is_done = False

    def expect(self, event: str, *, count: int = 1, timeout_s: float = CALL_S) -> list[Row]:
        """Wait until ``count`` rows of an event have come since the beginning; all of them."""
        deadline = time.monotonic() + timeout_s
        while len(found := self.of(event)) < count:
            if self.is_done:
                raise AssertionError(f"done with {len(found)} of {count} {event}: {self.rows[-5:]}")
            self._next(deadline, f"{len(found)} of {count} {event}")
        return found

    def finish(self, *, timeout_s: float = CALL_S) -> list[Row]:
        """Wait for the end of the command; every row it has printed."""
        deadline = time.monotonic() + timeout_s
        while not self.is_done:
            self._next(deadline, "the end")
        return self.rows

    def stop(self) -> list[Row]:
        """Ask a command that waits to end, and wait for it."""
        self._client.write({"id": self._number, "stop": True})
        return self.finish()

    def of(self, event: str) -> list[Row]:
        """The rows of an event that have been read."""
        return [row for row in self.rows if row["event"] == event]

    def take(self, row: Row | None) -> None:
        """Called by the reader of the client; None at the end of its output."""
        self._incoming.put(row)

    def _next(self, deadline: float, waiting_for: str) -> None:
        try:
            row = self._incoming.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise AssertionError(f"no {waiting_for} in time: {self.rows[-5:]}") from None
        if row is None:
            raise AssertionError(
                f"the Java client has ended: {self._client.log.read_text()[-2000:]}"
            )
        if row["event"] == "done":
            self.is_done = True
        else:
            self.rows.append(row)


class JavaClient:
    """A virtual machine with the Java client in it, driven by JSON lines (``Driver.java``)."""

    def __init__(
        self, version: str, home: Path, *, serialization: str = "JSON", flags: tuple[str, ...] = ()
    ) -> None:
        command = java_command(version, home=home, heap_mb=256, serialization=serialization)
        command[1:1] = flags
        self.log = home / "client.out"
        self._numbers = itertools.count(1)
        self._calls: dict[int, JavaCall] = {}
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, "contrail.Driver"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=home,  # some sub-commands of mqadmin leave files where they run
            )
        assert self._process.stdout is not None
        self._reader = threading.Thread(
            target=self._read, args=(self._process.stdout,), name="java-client", daemon=True
        )
        self._reader.start()

    def begin(self, command: str, **parameters: Any) -> JavaCall:
        """Start a command; parameters with the value None are left out."""
        number = next(self._numbers)
        call = self._calls[number] = JavaCall(self, number)
        given = {name: value for name, value in parameters.items() if value is not None}
        self.write({"id": number, "command": command, **given})
        return call

    def write(self, line: Row) -> None:
        """Send one line."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(line).encode() + b"\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """End the virtual machine."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(60)
        self._reader.join(60)
        self._process.stdout.close()

    def kill(self) -> None:
        """End the virtual machine as a crash would: nobody is told."""
        self._process.kill()
        self._process.wait(60)
        self._reader.join(60)

    def _read(self, lines: IO[bytes]) -> None:
        for line in lines:
            row = json.loads(line)
            self._calls[row.pop("id")].take(row)
        for call in list(self._calls.values()):
            call.take(None)


class MqAdmin:
    """The original's admin tool in a virtual machine that stays (``MqAdmin.java``)."""

    def __init__(
        self,
        version: str,
        home: Path,
        *,
        account: tuple[str, str] | None = None,
        flags: tuple[str, ...] = (),
    ) -> None:
        command = java_command(version, home=home, heap_mb=256)
        command[1:1] = flags
        if account is not None:
            (home / "conf").mkdir(exist_ok=True)
            tools = home / "conf" / "tools.yml"
            tools.write_text(f"accessKey: {account[0]}\nsecretKey: {account[1]}\n")
        _write_logback(home)
        self._log = home / "mqadmin.err"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, "contrail.MqAdmin"],
                env={**os.environ, "ROCKETMQ_HOME": str(home)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=home,  # some sub-commands leave files where they run
            )

    def run(self, *words: str) -> str:
        """What a command prints; one that takes longer than 30 s says so itself."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(words).encode() + b"\n")
        self._process.stdin.flush()
        size = self._process.stdout.readline()
        if not size:
            raise AssertionError(f"mqadmin has ended: {self._log.read_text()[-2000:]}")
        return self._process.stdout.read(int(size)).decode()

    def close(self) -> None:
        """End the virtual machine."""
        self._process.kill()
        self._process.wait(60)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Have a file to oneself: what is built once for all runs is built by one at a time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _checked(command: list[str], *, timeout_s: float) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")


def _cluster_info(namesrv: str) -> bytes:
    """The answer to GET_BROKER_CLUSTER_INFO as it comes, by a few bytes of our own."""
    header = b'{"code":106,"flag":0,"language":"JAVA","opaque":1,"version":0}'
    head = struct.pack(">ii", len(header) + 4, len(header))
    host, _, port = namesrv.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(head + header)
        with connection.makefile("rb") as answer:
            (size,) = struct.unpack(">i", answer.read(4))
            return answer.read(size)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _write_logback(home: Path) -> None:
    (home / "conf").mkdir(parents=True, exist_ok=True)
    for part in ("namesrv", "broker", "tools"):
        (home / "conf" / f"logback_{part}.xml").write_text(
            '<configuration><appender name="F" class="ch.qos.logback.core.FileAppender">'
            f"<file>{home}/{part}.log</file><encoder><pattern>%d %p %t %logger - %m%n</pattern>"
            '</encoder></appender><root level="WARN"><appender-ref ref="F"/></root>'
            "</configuration>"
        )


if __name__ == "__main__":  # fetch and compile now, so that no test waits for it
    for wanted in VERSIONS:
        classes(wanted)
