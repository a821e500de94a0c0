"""A broker in a process of its own, for tests that attack it, and what an attacker needs."""

from __future__ import annotations

import os
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import RESPONSE_FLAG, Command, decode
from contrailmq.protocol.headers.pull import PullMessageRequest
from contrailmq.protocol.headers.send import SendMessageRequestV2

ROOT = Path(__file__).parents[2]


class Victim:
    """``contrail up`` with its log in a file; the store outlives a stop."""

    def __init__(self, folder: Path, *, files_max: int | None = None, **settings: object) -> None:
        self.store = folder / "store"
        self.log_path = folder / "log"
        self._files_max = files_max
        self._settings = settings
        self.process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "contrailmq.main", "up", "--port", "0"]
        command += ["--namesrv-port", "0", "--store", str(self.store)]
        for name, value in self._settings.items():
            command += ["--set", f"{name}={value}"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        with self.log_path.open("a") as log:
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                text=True,
                preexec_fn=self._limit,  # noqa: PLW1509 - no threads of the child run yet
            )
        assert process.stdout is not None
        assert select.select([process.stdout], [], [], 30)[0], self.log()
        found = re.search(r"broker (\S+):(\d+),", process.stdout.readline())
        assert found is not None, self.log()
        self.host, self.port = found[1], int(found[2])
        return process

    def _limit(self) -> None:
        if self._files_max is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (self._files_max, self._files_max))

    def log(self) -> str:
        """Everything it has logged."""
        return self.log_path.read_text()

    def connect(self) -> socket.socket:
        """A new connection."""
        return socket.create_connection((self.host, self.port), 30)

    def memory(self) -> int:
        """Bytes of its own memory, files not counted."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"RssAnon:\s+(\d+) kB", text)
        assert found is not None
        return 1024 * int(found[1])

    def stop(self) -> int:
        """End it gently; its return code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def end(self) -> None:
        """Kill it if it still runs: the end of a test that failed."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def restart(self) -> None:
        """Stop it, and start it again on the same store."""
        self.stop()
        self.process = self._start()


class Probe:
    """A well-behaved producer on one connection, which measures how long its sends take."""

    def __init__(self, victim: Victim, *, topic: str = "Probe") -> None:
        self.stream = victim.connect()
        self.topic = topic
        self.times: list[float] = []
        self.codes: list[int] = []
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def send(self) -> Command:
        """One message; its answer."""
        began = time.perf_counter()
        answer = call(self.stream, send_request(self.topic))
        self.times.append(time.perf_counter() - began)
        self.codes.append(answer.code)
        return answer

    def start(self, pause_s: float = 0.005) -> None:
        """Send in a thread of its own until ``stop``."""

        def run() -> None:
            while not self._ending.wait(pause_s):
                self.send()

        self._thread = threading.Thread(target=run)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and the connection."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
        self.stream.close()

    def __enter__(self) -> Probe:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def p99_s(self) -> float:
        """The time 99 % of the sends took at most."""
        return sorted(self.times)[len(self.times) * 99 // 100]


def call(stream: socket.socket, command: Command) -> Command:
    """Send a request and read the next answer; requests of the broker are passed over."""
    stream.sendall(command.encode())
    while True:
        found = read_answer(stream)
        if found.flag & RESPONSE_FLAG:
            return found


def read_answer(stream: socket.socket) -> Command:
    """The next frame of a connection."""
    return decode(_read(stream, int.from_bytes(_read(stream, 4), "big")))


def _read(stream: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        more = stream.recv(min(size - len(data), 1 << 20))
        if not more:
            raise ConnectionError(f"closed after {len(data)} of {size} bytes")
        data += more
    return bytes(data)


def send_request(topic: str, queue_id: int = 0, *, body: bytes = b"x" * 128) -> Command:
    """A send of one message."""
    header = SendMessageRequestV2(
        producer_group="p", topic=topic, queue_id=queue_id, properties="UNIQ_KEY\x010A14\x02"
    )
    return Command.request(RequestCode.SEND_MESSAGE_V2, header, body=body)


def pull_request(
    topic: str, queue_id: int = 0, *, offset: int = 0, wait_ms: int = 0, group: str = "g"
) -> Command:
    """A pull, which is held for a while with ``wait_ms``."""
    header = PullMessageRequest(
        consumer_group=group,
        topic=topic,
        queue_id=queue_id,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=6 if wait_ms else 4,
        suspend_timeout_millis=wait_ms,
        subscription="*",
        expression_type="TAG",
    )
    return Command.request(RequestCode.PULL_MESSAGE, header)
