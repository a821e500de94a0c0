"""All consume queues of a store directory, for reading only."""

from __future__ import annotations

import posixpath
from typing import TypeVar

from contrailmq.store.files import Files
from contrailmq.store.offline.plan import QueueKey
from contrailmq.store.offline.view_queues import BatchQueueView, QueueView

View = TypeVar("View", QueueView, BatchQueueView)


class QueueTable:
    """Queue views by topic and queue id, plain and batch."""

    def __init__(self, files: Files, plain_folder: str, batch_folder: str) -> None:
        self._files = files
        self._plain_folder = plain_folder
        self._batch_folder = batch_folder
        self.plain: dict[QueueKey, QueueView] = {}
        self.batches: dict[QueueKey, BatchQueueView] = {}
        self.refresh()

    def refresh(self) -> None:
        """Find the queues again, and their files."""
        self._find(self.plain, QueueView, self._plain_folder)
        self._find(self.batches, BatchQueueView, self._batch_folder)

    def clear(self) -> None:
        """Forget everything."""
        self.plain.clear()
        self.batches.clear()

    def derived_end(self) -> int:
        """The end of the newest record that a queue file knows of; 0 without any."""
        end = 0
        for queue in self.plain.values():
            written = queue.written()
            if written > queue.first:
                unit = queue.unit(written - 1)
                end = max(end, unit.offset + unit.size)
        for batch in self.batches.values():
            end = max([end, *(unit.offset + unit.size for unit in batch.units())])
        return end

    def _find(self, table: dict[QueueKey, View], kind: type[View], folder: str) -> None:
        found: dict[QueueKey, str] = {}
        for topic in self._files.folders(folder):
            path = posixpath.join(folder, topic)
            for name in self._files.folders(path):
                if name.isascii() and name.isdigit():
                    found[topic, int(name)] = posixpath.join(path, name)
        for key in [key for key in table if key not in found]:
            del table[key]
        for key, path in found.items():
            if key in table:
                table[key].refresh()
            else:
                table[key] = kind(self._files, path, topic=key[0], queue_id=key[1])
