# cython: annotation_typing=False
# ruff: noqa: ERA001
"""The loop of the thread that brings old messages in from the disk.

It never takes the interpreter lock between two orders: neither side waits for the other's Python.
"""

from __future__ import annotations

from contrailmq._native import raw, system

_WORD = 8


def serve(wake_fd: int, done_fd: int, orders: bytearray) -> None:
    """Carry out orders until told to end; ``system.serve_loads`` has their form."""
    room = (len(orders) // _WORD - 1) // 2
    if room < 1:
        raise ValueError(f"serve: {len(orders)} bytes have no room for an order")
    system.serve_loads(wake_fd, done_fd, raw.at_address(orders), room)
