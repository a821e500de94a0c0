"""Merging the small files of an archive.

Theory of operation.  Only folders of batches that can never be written again are touched: those
up to the last one that the checkpoint of their name has committed, and merged ones.  The small ones
of one hour of one topic become one folder ``batch=merged-ID``:

1. the merged files are written to ``_compacting/ID``, where no reader looks;
2. ``_compacting/ID.json`` names the sources and the target: from here on the merge counts;
3. the sources are deleted, the merged folder is renamed to its place, the note is deleted.

A run that finds a note finishes what it says; merged files without a note are thrown away.  A
reader that lists files between 2 and 3 misses rows or files: do not merge under a running query.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from contrailmq.clock import Clock, SystemClock
from contrailmq.pipelines.folders import Folders
from contrailmq.pipelines.progress import Stop
from contrailmq.pipelines.report import Report
from contrailmq.spark.columns import message_schema

FILE_SIZE: Final = 128 * 1024 * 1024
FULL_SHARE: Final = 0.75  # a folder of files this large on average is left alone
_STAGE: Final = "_compacting"
_BATCH: Final = re.compile(r"batch=(\w+)-(\d+)")
_MERGED: Final = "batch=merged-"


class _Batch(NamedTuple):
    path: str
    size: int
    files: int


def compact(
    spark: SparkSession,
    path: str,
    *,
    file_size: int = FILE_SIZE,
    stop: Stop | None = None,
    clock: Clock | None = None,
) -> Report:
    """Merge small files; ``rows`` of the report counts the files that became fewer."""
    clock = clock or SystemClock()
    began_ms = clock.monotonic_ms()
    files = Folders(spark, path)
    finish(files)
    report = Report(pipeline="compact", facts={"archive": path, "folders": 0})
    committed = {
        entry.name: _last_commit(files, entry.name)
        for entry in files.entries("_checkpoint")
        if entry.is_folder
    }
    for folder in list(_topic_folders(files)):
        if stop is not None and stop.is_requested:
            report.is_stopped = True
            break
        small = [
            batch
            for batch in _batches(files, folder, committed)
            if batch.size < batch.files * file_size * FULL_SHARE
        ]
        count = sum(batch.files for batch in small)
        wanted = max(1, math.ceil(sum(batch.size for batch in small) / file_size))
        if wanted < count:
            _merge(spark, files, folder, small=small, count=wanted)
            report.facts["folders"] += 1
            report.rows += count - wanted
    report.seconds = (clock.monotonic_ms() - began_ms) / 1000
    return report


def finish(files: Folders) -> None:
    """Finish merges that a crash interrupted, or undo them where they had not yet counted."""
    notes = {}
    for entry in files.entries(_STAGE):
        name = entry.name.removesuffix(".new")
        if name.endswith(".json") and entry.name == name:
            notes[name.removesuffix(".json")] = json.loads(files.read_text(entry.path) or "{}")
    for identity, note in notes.items():
        for source in note["sources"]:
            files.delete(source)
        if files.has(f"{_STAGE}/{identity}"):
            files.rename(f"{_STAGE}/{identity}", note["target"])
        files.delete(f"{_STAGE}/{identity}.json")
    files.delete(_STAGE)


def _topic_folders(files: Folders) -> Iterator[str]:
    for date in files.entries(""):
        if date.is_folder and date.name.startswith("date="):
            for hour in files.entries(date.path):
                for topic in files.entries(hour.path):
                    if topic.is_folder and topic.name.startswith("topic="):
                        yield topic.path


def _last_commit(files: Folders, name: str) -> int:
    found = files.entries(f"_checkpoint/{name}/commits")
    return max((int(entry.name) for entry in found if entry.name.isdigit()), default=-1)


def _batches(files: Folders, folder: str, committed: dict[str, int]) -> Iterator[_Batch]:
    """The batches of a folder that will not be written again."""
    for entry in files.entries(folder):
        if not entry.name.startswith(_MERGED):
            known = _BATCH.fullmatch(entry.name)
            if known is None or int(known[2]) > committed.get(known[1], -1):
                continue
        parts = [part for part in files.entries(entry.path) if part.name.endswith(".parquet")]
        if parts:
            yield _Batch(entry.path, sum(part.size for part in parts), len(parts))


def _merge(
    spark: SparkSession, files: Folders, folder: str, *, small: list[_Batch], count: int
) -> None:
    sources = [batch.path for batch in small]
    identity = hashlib.sha256("\0".join(sources).encode()).hexdigest()[:16]
    inside = StructType([field for field in message_schema().fields if field.name != "topic"])
    frame = spark.read.schema(inside).parquet(*(f"{files.root}/{path}" for path in sources))
    order = ["broker", "queue_id", "queue_offset"]
    spread = frame.repartitionByRange(count, *order) if count > 1 else frame.coalesce(1)
    staged = f"{_STAGE}/{identity}"
    spread.sortWithinPartitions(*order).write.mode("overwrite").parquet(f"{files.root}/{staged}")
    note = {"sources": sources, "target": f"{folder}/{_MERGED}{identity}"}
    files.write_text(f"{staged}.json", json.dumps(note))
    finish(files)
