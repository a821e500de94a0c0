"""A broker of ours as a process, beside Java's."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from testkit.peer import free_port


class OurBroker:
    """A ``contrail broker`` process with the keys of Java's broker.conf."""

    def __init__(self, home: Path, *, namesrv: str, conf: dict[str, str]) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self.store = home / "store"
        self.port = free_port(below=2, above=1)
        self.address = f"127.0.0.1:{self.port}"
        settings = {
            "brokerClusterName": "DefaultCluster",
            "brokerName": "broker-a",
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "listenPort": str(self.port),
            "haListenPort": str(self.port + 1),
            "namesrvAddr": namesrv,
            "storePathRootDir": str(self.store),
            **conf,
        }
        path = home / "broker.conf"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        self.store = Path(settings["storePathRootDir"])
        self._command = [sys.executable, "-m", "contrailmq.main", "broker", "-c", str(path)]
        self.start()

    def start(self) -> None:
        with (self.home / "out").open("ab") as out:
            begin = out.tell()
            self.process = subprocess.Popen(self._command, stdout=out, stderr=out)
        wait_for(
            lambda: b"boot success" in (self.home / "out").read_bytes()[begin:], "our broker serves"
        )

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """End it in good order."""
        self.process.terminate()
        self.process.wait(30)


def wait_for(check: Callable[[], bool], what: str, *, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.1)
