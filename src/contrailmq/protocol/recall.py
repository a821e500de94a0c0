"""Recall handles: what a send answers for a timer message, and what takes it back.

Base64 of ``v1 TOPIC BROKER TIME UNIQ_KEY``, one blank between parts, with the alphabet of URLs and
with padding (RecallMessageHandle of 5.3.2).  TIME lies in the message's slot of the timer wheel.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final, NamedTuple

VERSION: Final = "v1"
_PARTS: Final = 5


class RecallHandle(NamedTuple):
    """Which message is to be taken back, and where it waits."""

    topic: str
    broker_name: str
    due_ms: int
    unique_key: str

    def encode(self) -> str:
        """The handle as a text."""
        parts = (VERSION, self.topic, self.broker_name, str(self.due_ms), self.unique_key)
        return base64.urlsafe_b64encode(" ".join(parts).encode()).decode()


def read_handle(text: str) -> RecallHandle | None:
    """The handle a text stands for; None for one that is none."""
    try:
        parts = base64.b64decode(text, altchars=b"-_", validate=True).decode().split(" ")
        if len(parts) != _PARTS or parts[0] != VERSION or not all(parts):
            return None
        return RecallHandle(parts[1], parts[2], int(parts[3]), parts[4])
    except (binascii.Error, ValueError):
        return None
