"""Where every file of a store lies, what it is called and how large it is.

Names and sizes are the original's (``StorePathConfigHelper``, ``MappedFileQueue``): a segment is
named after its first offset, in 20 digits; an index file after the local time of its creation.
"""

from __future__ import annotations

import datetime
import posixpath
from pathlib import Path
from typing import Final

from contrailmq.store.settings import StoreSettings

QUEUE_UNIT: Final = 20
QUEUE_EXT_UNIT: Final = 20  # without the bit map
BATCH_QUEUE_UNIT: Final = 46
INDEX_HEAD: Final = 40
INDEX_SLOT: Final = 4
INDEX_ENTRY: Final = 20
CHECKPOINT_SIZE: Final = 4096
SEGMENT_DIGITS: Final = 20
INDEX_DIGITS: Final = 17


class Layout:
    """Paths of one store directory."""

    def __init__(self, settings: StoreSettings) -> None:
        self.root = str(Path(settings.root).expanduser())
        given = settings.commit_log_path or posixpath.join(self.root, "commitlog")
        self.commit_logs = tuple(
            str(Path(part.strip()).expanduser()) for part in given.split(",") if part.strip()
        )
        self.read_only_commit_logs = tuple(
            str(Path(part.strip()).expanduser())
            for part in settings.read_only_commit_log_paths.split(",")
            if part.strip()
        )
        self.consume_queues = posixpath.join(self.root, "consumequeue")
        self.consume_queue_exts = posixpath.join(self.root, "consumequeue_ext")
        self.batch_consume_queues = posixpath.join(self.root, "batchconsumequeue")
        self.indexes = posixpath.join(self.root, "index")
        self.checkpoint = posixpath.join(self.root, "checkpoint")
        self.abort = posixpath.join(self.root, "abort")
        self.lock = posixpath.join(self.root, "lock")
        self.quarantine = posixpath.join(self.root, "quarantine")  # ours alone
        self.config = posixpath.join(self.root, "config")
        self.segment_size = settings.segment_size
        self.queue_file_size = queue_file_size(settings.queue_file_size)
        self.batch_queue_file_size = batch_queue_file_size(settings.batch_queue_file_size)
        self.queue_ext_file_size = settings.queue_ext_file_size
        self.index_file_size = index_file_size(settings.index_slots, settings.index_entries)

    def commit_log(self, offset: int) -> str:
        """The file of the segment that starts at ``offset``; several paths take turns."""
        turn = offset // self.segment_size % len(self.commit_logs)
        return posixpath.join(self.commit_logs[turn], segment_name(offset))

    def consume_queue(self, topic: str, queue_id: int) -> str:
        """The folder of one consume queue."""
        return posixpath.join(self.consume_queues, topic, str(queue_id))

    def batch_consume_queue(self, topic: str, queue_id: int) -> str:
        """The folder of one batch queue."""
        return posixpath.join(self.batch_consume_queues, topic, str(queue_id))

    def consume_queue_ext(self, topic: str, queue_id: int) -> str:
        """The folder of one queue's extension."""
        return posixpath.join(self.consume_queue_exts, topic, str(queue_id))

    def index(self, now_ms: int) -> str:
        """The name of an index file created now."""
        return posixpath.join(self.indexes, index_name(now_ms))


def segment_name(offset: int) -> str:
    """The name of the segment that starts at ``offset``."""
    return f"{offset:0{SEGMENT_DIGITS}d}"


def find_segment_offset(name: str) -> int | None:
    """The first offset a file name stands for; None when it is not a segment's name."""
    return int(name) if len(name) == SEGMENT_DIGITS and name.isascii() and name.isdigit() else None


def index_name(now_ms: int) -> str:
    """yyyyMMddHHmmssSSS in local time, as the original names its index files."""
    moment = datetime.datetime.fromtimestamp(now_ms / 1000, datetime.UTC).astimezone()
    return moment.strftime("%Y%m%d%H%M%S") + f"{now_ms % 1000:03d}"


def is_index_name(name: str) -> bool:
    """Whether a file name is that of an index file."""
    return len(name) == INDEX_DIGITS and name.isascii() and name.isdigit()


def queue_file_size(configured: int) -> int:
    """A consume-queue file holds whole units (MessageStoreConfig.getMappedFileSizeConsumeQueue)."""
    return -(-configured // QUEUE_UNIT) * QUEUE_UNIT


def batch_queue_file_size(configured: int) -> int:
    """A file of a batch queue holds whole units, too."""
    return -(-configured // BATCH_QUEUE_UNIT) * BATCH_QUEUE_UNIT


def index_file_size(slots: int, entries: int) -> int:
    """Size of an index file."""
    return INDEX_HEAD + INDEX_SLOT * slots + INDEX_ENTRY * entries
