"""What the lanes are built from, besides their hosts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from contrailmq._native.hosts import QueueTable, Revised
from contrailmq._native.lanes.answers import AnswerParts
from contrailmq._native.lanes.gate import Gate
from contrailmq._native.lanes.held import Held
from contrailmq._native.lanes.times import Times
from contrailmq._native.store.follow import Follower
from contrailmq._native.store.log import LogWriter


@dataclass(frozen=True, slots=True)
class SendInputs:
    """Everything the send lanes are built from.

    ``fields`` and ``properties`` are tables made by ``names.pack``.  ``held`` keeps answers that
    wait for disk or replicas.  ``gate`` checks frames where there is access control.  A read
    buffer of ``kept_size`` is used again for the next read, any other one is let go.
    ``times`` are those of its requests.
    """

    log: LogWriter
    follower: Follower
    revision: Revised
    queues: QueueTable
    now_ms: Callable[[], int]
    store_host: bytes
    fields: bytes
    properties: bytes
    json_answer: AnswerParts
    binary_answer: AnswerParts
    held: Held
    kept_size: int
    gate: Gate | None = None
    times: Times = field(default_factory=Times)
