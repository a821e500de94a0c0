"""What POP writes into the revive topic, reads from it, and brings back."""

from __future__ import annotations

from collections import Counter


class ReviveTally:
    """Sums since the broker started. Groups and topics exist; owned by the event loop."""

    def __init__(self) -> None:
        self.written: Counter[tuple[str, str, str]] = Counter()  # group, topic, CK or ACK
        self.read: Counter[tuple[str, str, str, int]] = Counter()  # and the queue
        self.retried: Counter[tuple[str, str]] = Counter()  # group, topic

    def forget(self, *, topic: str | None = None, group: str | None = None) -> None:
        """A topic or a group was deleted."""
        for table in (self.written, self.read, self.retried):
            for key in [key for key in table if key[0] == group or key[1] == topic]:
                del table[key]
