"""Make what recovery believed as certain as what will be written behind it."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, Protocol

from contrailmq._native.store import scan
from contrailmq.errors import StoreError
from contrailmq.lifecycle import uninterrupted
from contrailmq.store.commit_log import CommitLog
from contrailmq.store.files import Files, Segment
from contrailmq.store.flush import sync_many
from contrailmq.store.segments import Segments

_WRITE_STEP: Final = 1024 * 1024
_DIRTY_LOOK: Final = 64 * 1024


class Renamed(Protocol):
    """A queue or the index, as far as its names on disk go."""

    def take_renamed(self) -> set[str]:
        """Folders in which files were made or removed since the last call."""
        ...


def is_dirty_behind(segments: Segments, end: int) -> bool:
    """Whether something stands behind the end of the log: a clean stop leaves nothing."""
    segment = segments.find(end) if end < segments.limit_offset else None
    if segment is None:
        return False
    position = end % segments.size
    until = min(position + _DIRTY_LOOK, segment.size)
    return scan.find_nonzero(segment.buffer, position, until) < until


async def make_certain(
    files: Files,
    log: CommitLog,
    segments: Sequence[Segment],
    *,
    changed: list[str],
    derived: Iterable[Renamed],
    write_again: bool,
) -> None:
    """Sync segments of the log, files of queues and index, and the names of all of them.

    ``changed`` are paths: of very many queues only some are mapped.
    ``write_again``: the kernel takes pages for written that are not, so they are written once more.
    """
    loop = asyncio.get_running_loop()
    for segment in segments:
        if write_again:
            base = int(posixpath.basename(segment.path))  # a segment is named after its offset
            await _write_again(segment, log.end_offset - base)
        await uninterrupted(loop.run_in_executor(None, segment.sync))
    await uninterrupted(loop.run_in_executor(None, log.sync_folders))
    renamed = log.segments.take_renamed()
    for part in derived:
        renamed |= part.take_renamed()
    folders = sorted(renamed | {posixpath.dirname(folder) for folder in renamed})
    work = partial(sync_many, files, changed, folders)
    await uninterrupted(loop.run_in_executor(None, work))


async def _write_again(segment: Segment, end: int) -> None:
    for position in range(0, min(end, segment.size), _WRITE_STEP):
        stop = min(position + _WRITE_STEP, end, segment.size)
        data = bytes(segment.buffer[position:stop])
        if segment.write(position, data) != len(data):
            raise StoreError(f"{segment.path}: cannot be written again at {position}")
        await asyncio.sleep(0)
