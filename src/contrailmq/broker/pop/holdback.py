"""Offsets that must not reach the disk before the checkpoints they rest on.

A pop moves the committed offset behind what it gave out; that is safe because a checkpoint says
what is out.  If ``consumerOffset.json`` were ahead of the log on disk, a power cut would lose
messages that were given out and never settled.  So the file gets, for each queue, the offset before
the first pop whose checkpoint is not flushed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class HoldBack:
    """What pops have moved and the disk does not know yet."""

    def __init__(self, flushed_offset: Callable[[], int]) -> None:
        self._flushed_offset = flushed_offset  # up to where the log is on disk
        self._unsafe: dict[str, dict[int, deque[tuple[int, int]]]] = {}
        self._is_released = False
        self.revision = 0  # grows when less was saved than there is: it has to be saved again

    def note(self, pair: str, queue_id: int, *, before: int, log_end: int) -> None:
        """A pop moved an offset from ``before``; its checkpoint ends at ``log_end`` in the log."""
        queues = self._unsafe.setdefault(pair, {})
        moves = queues.get(queue_id)
        if moves is None:
            moves = queues[queue_id] = deque()
        self._prune(moves)
        moves.append((before, log_end))

    def release(self) -> None:
        """From now on everything is safe: the store is flushed before the broker has stopped."""
        self._is_released = True
        self._unsafe.clear()

    def safe(self, pair: str, queues: dict[int, int]) -> dict[int, int]:
        """The offsets of a pair as the file may have them."""
        unsafe = self._unsafe.get(pair)
        if not unsafe or self._is_released:
            return queues
        safe = dict(queues)
        for queue_id, moves in list(unsafe.items()):
            self._prune(moves)
            if not moves:
                del unsafe[queue_id]
            elif queue_id in safe:
                safe[queue_id] = min(safe[queue_id], moves[0][0])
                self.revision += 1
        if not unsafe:
            del self._unsafe[pair]
        return safe

    def _prune(self, moves: deque[tuple[int, int]]) -> None:
        flushed = self._flushed_offset()
        while moves and moves[0][1] <= flushed:
            moves.popleft()
