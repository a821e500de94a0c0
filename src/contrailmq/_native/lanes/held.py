# cython: annotation_typing=False
# ruff: noqa: ERA001
"""Answers that wait for the disk.

The answers of all reads of one turn of the loop wait together: they are one group, of which the
store is asked once.  ``hold`` keeps an answer and tells the host of a group's first (``held``),
which then takes the group at the end of the turn (``take``) and sees to it that ``answer`` is
called, or ``drop`` when it answers otherwise.  Nothing here is made for each answer.
"""

from __future__ import annotations

from typing import Any

from contrailmq._native.hosts import HeldHost, LanePeer

Bytes = bytes | bytearray | memoryview


class Held:
    """Answers with their connections; ``host.steer`` is called when their size passes the bound."""

    def __init__(self, host: HeldHost, size_max: int) -> None:
        self.host = host
        self.size = 0
        self.size_max = size_max
        self._group: list[Any] = []

    def hold(self, reply: bytes, peer: LanePeer) -> None:
        """Keep an answer of the read that is being handled."""
        if not self._group:
            self.host.held()
        self._group.append(peer)
        self._group.append(reply)
        self.size += len(reply)
        if self.size > self.size_max:
            self.host.steer()

    def take(self) -> list[Any]:
        """Return the answers held since the last call: connection, answer, connection, answer …"""
        group = self._group
        self._group = []
        return group

    def answer(self, group: list[Any]) -> None:
        """Write all answers of a group: the disk has their records."""
        self.drop(group)
        for index in range(0, len(group), 2):
            group[index].answer(group[index + 1])

    def drop(self, group: list[Any]) -> None:
        """Forget the answers of a group."""
        was_over = self.size > self.size_max
        for index in range(1, len(group), 2):
            self.size -= len(group[index])
        if was_over and self.size <= self.size_max:
            self.host.steer()
