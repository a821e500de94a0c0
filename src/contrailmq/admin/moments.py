"""Moments in time as people write them on a command line."""

from __future__ import annotations

import argparse
import datetime
import re
from typing import Final

from contrailmq.clock import SystemClock

_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def moment(text: str) -> int:
    """Milliseconds since 1970 of ``now``, ``10m`` ago, a local date and time, or as they are."""
    if text == "now":
        return SystemClock().now_ms()
    ago = _SPAN.fullmatch(text.removeprefix("-"))
    if ago is not None:
        return SystemClock().now_ms() - int(float(ago[1]) * _UNITS_MS[ago[2]])
    if text.isascii() and text.isdigit() and len(text) > 8:
        return int(text)
    try:
        return int(datetime.datetime.fromisoformat(text).astimezone().timestamp() * 1000)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r}: a span ago (30s, 10m, 2h, 1d), a local time (2026-11-15 10:30), "
            "or milliseconds"
        ) from None


def start_moment(text: str) -> str | int:
    """``first``, ``last`` or a moment."""
    return text if text in ("first", "last") else moment(text)
