"""What is told of each request that went through a handler, to whoever counts them."""

from __future__ import annotations

import enum
from typing import Protocol


class Result(enum.Enum):
    """How a request ended, in the original's words."""

    SUCCESS = "success"
    ONEWAY = "oneway"
    CANCELLED = "cancelled"
    FAILED = "process_request_failed"


class Meter(Protocol):
    """Counts requests."""

    def served(self, code: int, answer: int, took_s: float, result: Result) -> None:
        """A request was answered by its handler, at once or after it waited for something."""
        ...

    def released(self, code: int, answer: int, took_s: float) -> None:
        """A request that was held (a long poll) was answered."""
        ...
