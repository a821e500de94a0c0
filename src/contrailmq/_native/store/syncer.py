# cython: annotation_typing=False
# ruff: noqa: ERA001
"""The loop of the thread that calls fsync for those who wait for it.

It never takes the interpreter lock between two orders: neither side waits for the other's Python.
"""

from __future__ import annotations

from contrailmq._native import raw, system

_WORDS = 3
_WORD = 4


def serve(wake_fd: int, done_fd: int, order: bytearray) -> None:
    """Carry out orders until one has a count below 0; ``system.serve_syncs`` has their form."""
    if len(order) < _WORDS * _WORD:
        raise ValueError(f"serve: {len(order)} bytes are no order")
    system.serve_syncs(wake_fd, done_fd, raw.at_address(order))
