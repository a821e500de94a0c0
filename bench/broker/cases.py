"""What is measured of a broker, and what is aimed at: the table of cases.

``connections x in flight`` names a closed loop: every connection keeps that many requests in
flight.  Cases with a rate are open: requests are due at fixed moments.
"""

from __future__ import annotations

from dataclasses import dataclass

QUEUES = 16


@dataclass(frozen=True, kw_only=True)
class Fill:
    """Messages that must lie in a topic before a case: the same number in every broker."""

    topic: str
    messages: int
    arguments: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One thing that is measured.

    ``aim`` is the least ratio to Java's rate; None where the rate is given and latency is all
    there is to compare.  ``beside`` is a second load that runs at the same time and is a row of
    its own.
    """

    name: str
    arguments: tuple[str, ...]
    group: str
    aim: float | None = 1.0
    topic: str = "bench"
    topics: int = 1
    fill: Fill | None = None
    cold: bool = False  # the store's files are driven out of memory before each sample
    beside: tuple[str, tuple[str, ...]] | None = None

    @property
    def is_open(self) -> bool:
        """Whether latencies count from when a request was due."""
        return "-r" in self.arguments


def send(connections: int, window: int, body: int = 128, *more: str) -> tuple[str, ...]:
    """Arguments of a closed loop of sends."""
    return ("send", "-c", str(connections), "-w", str(window), "-b", str(body), *more)


def pull(connections: int, window: int, *more: str) -> tuple[str, ...]:
    """Arguments of a closed loop of pulls of 32."""
    return ("pull", "-c", str(connections), "-w", str(window), "-m", "32", *more)


HOT = Fill(topic="fill", messages=600_000, arguments=send(16, 64))
COLD = Fill(topic="cold", messages=1_000_000, arguments=send(4, 4, 1024, "-n", "32"))
BESIDE = ("cold catch-up: sends of 1 KB beside it, 2,000/s", send(4, 64, 1024, "-r", "2000"))
CONF = {"enablePropertyFilter": "true"}
GROUPS: dict[str, dict[str, str]] = {  # cases of a group share running brokers
    "usual": CONF,
    "more": CONF,
    "cold": CONF,
    "sync": {**CONF, "flushDiskType": "SYNC_FLUSH"},
}
CASES = (
    Case(name="send 1x1 128 B", arguments=send(1, 1), group="usual", aim=1.5),
    Case(name="send 64x1 128 B", arguments=send(64, 1), group="usual", aim=2.0),
    Case(name="send 16x64 128 B", arguments=send(16, 64), group="usual", aim=3.5),
    Case(name="send 16x64 1 KB", arguments=send(16, 64, 1024), group="usual", aim=3.0),
    Case(name="send 256x16 128 B", arguments=send(256, 16), group="usual", aim=3.5),
    Case(
        name="batches of 100, 4x4", arguments=send(4, 4, 128, "-n", "100"), group="usual", aim=2.0
    ),
    Case(name="pull 16x1", arguments=pull(16, 1), group="usual", aim=1.5, topic="fill", fill=HOT),
    Case(name="pull 16x4", arguments=pull(16, 4), group="usual", aim=1.5, topic="fill", fill=HOT),
    Case(
        name="pull 16x1, tag filter",
        arguments=pull(16, 1, "-f", "TAG:TagB"),
        group="usual",
        topic="fill",
        fill=HOT,
    ),
    Case(
        name="pull 16x1, SQL filter",
        arguments=pull(16, 1, "-f", "SQL92:TAGS = 'TagB'"),
        group="usual",
        topic="fill",
        fill=HOT,
    ),
    Case(name="5,000/s, 128 B", arguments=send(16, 64, 128, "-r", "5000"), group="more", aim=None),
    Case(
        name="50,000/s, 128 B", arguments=send(16, 64, 128, "-r", "50000"), group="more", aim=None
    ),
    Case(
        name="end to end, 1,000/s to a waiting consumer",
        arguments=("latency", "-r", "1000"),
        group="more",
        aim=None,
    ),
    Case(name="send 16x64 64 B", arguments=send(16, 64, 64), group="more"),
    Case(name="send 16x64 4 KB", arguments=send(16, 64, 4096), group="more"),
    Case(name="send 4x8 64 KB", arguments=send(4, 8, 65536), group="more"),
    Case(name="send 16x64 binary headers", arguments=send(16, 64, 128, "-x"), group="more"),
    Case(
        name="send 16x64 to 1,000 topics",
        arguments=send(16, 64),
        group="more",
        topic="many",
        topics=1000,
    ),
    Case(
        name="cold catch-up: pull 16x1 of 1 KB",
        arguments=pull(16, 1, "-o"),
        group="cold",
        topic="cold",
        fill=COLD,
        cold=True,
        beside=BESIDE,
    ),
    Case(name="send 1x1 sync flush", arguments=send(1, 1), group="sync", aim=1.2),
    Case(name="send 64x1 sync flush", arguments=send(64, 1), group="sync", aim=1.5),
    Case(name="send 16x64 sync flush", arguments=send(16, 64), group="sync", aim=1.5),
)
