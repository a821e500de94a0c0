"""The time of day, as every send asks for it: without a Python frame or a long division."""

from __future__ import annotations

from contrailmq._native import system


def now_ms() -> int:
    """Wall-clock milliseconds since 1970; may jump."""
    return system.wall_ms()
