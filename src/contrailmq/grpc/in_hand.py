"""Messages a client holds under automatic renewal, and their newest handles.

A push consumer does not say how long its handler may take.  The server therefore hides what it
gave out for a minute at a time and renews that before it ends, until the message is settled, three
hours have passed, or the client is gone.  A renewal changes the handle; the client still knows the
first one, so acknowledgements look up the newest here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from contrailmq.grpc.converting import ReceiptHandle

HELD_MAX: Final = 20_000  # messages in hand of one client; the oldest are then left to their time
RENEW_BEFORE_MS: Final = 10_000
HOLD_MS_MAX: Final = 3 * 3_600_000
FAILURES_MAX: Final = 3
STEPS_MS: Final = tuple(60_000 * minutes for minutes in (1, 3, 5, 10, 30, 60))

Key = tuple[str, str, str, str, int, int]  # group, topic, message id, broker, queue, offset


@dataclass(slots=True)
class Held:
    """One message in a client's hand."""

    group: str
    topic: str
    receipt: ReceiptHandle
    since_ms: int
    attempt: int
    renewals: int = 0
    failures: int = 0

    @property
    def next_ms(self) -> int:
        """How long the next renewal hides it."""
        return STEPS_MS[min(self.renewals, len(STEPS_MS) - 1)]

    def is_due(self, now_ms: int) -> bool:
        """Whether its time ends soon."""
        handle = self.receipt.handle
        return handle.pop_ms + handle.invisible_ms - now_ms <= RENEW_BEFORE_MS

    def is_overdue(self, now_ms: int) -> bool:
        """Whether it was held for too long."""
        return now_ms - self.since_ms >= HOLD_MS_MAX


class InHand:
    """What one client holds."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: dict[Key, Held] = {}

    def add(self, message_id: str, held: Held) -> None:
        """Note a message that was given out."""
        key = _key(held.group, held.topic, message_id, held.receipt)
        self._held.pop(key, None)
        if len(self._held) >= HELD_MAX:
            del self._held[next(iter(self._held))]
        self._held[key] = held

    def newest(
        self, group: str, topic: str, message_id: str, receipt: ReceiptHandle
    ) -> ReceiptHandle:
        """The newest handle of a message, or the given one."""
        held = self._held.get(_key(group, topic, message_id, receipt))
        return receipt if held is None else held.receipt

    def remove(self, group: str, topic: str, message_id: str, receipt: ReceiptHandle) -> None:
        """A message is settled."""
        self._held.pop(_key(group, topic, message_id, receipt), None)

    def items(self) -> list[tuple[Key, Held]]:
        """Everything in hand."""
        return list(self._held.items())

    def discard(self, key: Key) -> None:
        """Leave a message to its time."""
        self._held.pop(key, None)

    def take_all(self) -> list[Held]:
        """Everything in hand; nothing is kept."""
        held, self._held = self._held, {}
        return list(held.values())

    def __len__(self) -> int:
        return len(self._held)


def _key(group: str, topic: str, message_id: str, receipt: ReceiptHandle) -> Key:
    handle = receipt.handle
    return group, topic, message_id, handle.broker_name, handle.queue_id, handle.offset
