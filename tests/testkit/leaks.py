"""What a test must not leave behind: threads, tasks, open files, child processes."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

JOIN_S = 10.0


class Residue(NamedTuple):
    """What lives in this process at one moment."""

    threads: frozenset[threading.Thread]
    tasks: frozenset[int]
    files: frozenset[tuple[int, str]]
    children: frozenset[int]


def residue() -> Residue:
    """Look around."""
    return Residue(
        frozenset(threading.enumerate()),
        frozenset(map(id, _pending_tasks())),
        frozenset(_open_files()),
        frozenset(_children()),
    )


def left_since(before: Residue) -> list[str]:
    """Everything that has come since and does not go away by itself, in words."""
    if _is_clean(before):
        return []
    gc.collect()  # a mapped file or a transport may wait for nothing but this
    for thread in set(threading.enumerate()) - before.threads:
        thread.join(JOIN_S)
    found = [f"thread {thread.name}" for thread in set(threading.enumerate()) - before.threads]
    found += [f"task {task!r}" for task in _pending_tasks() if id(task) not in before.tasks]
    found += [f"open file {fd}: {name}" for fd, name in sorted(set(_open_files()) - before.files)]
    found += [f"child process {pid}" for pid in sorted(set(_children()) - before.children)]
    return found


def _is_clean(before: Residue) -> bool:
    now = residue()
    return (
        now.threads <= before.threads
        and now.tasks <= before.tasks
        and now.files <= before.files
        and now.children <= before.children
    )


def _pending_tasks() -> list[asyncio.Task[object]]:
    # asyncio.all_tasks() needs the loop; the sets below know the tasks of every loop.
    tasks = asyncio.tasks
    sets = (getattr(tasks, name, ()) for name in ("_all_tasks", "_scheduled_tasks", "_eager_tasks"))
    return [task for known in sets for task in list(known) if not task.done()]


def _open_files() -> Iterable[tuple[int, str]]:
    directory = Path("/proc/self/fd")
    if not directory.exists():
        return
    for entry in os.listdir(directory):  # noqa: PTH208  (two calls a test: the plain one is quicker)
        try:
            name = os.readlink(f"/proc/self/fd/{entry}")  # noqa: PTH115
        except OSError:
            continue  # the descriptor of this very listing
        if not name.endswith("/fd"):
            yield int(entry), name


def _children() -> Iterable[int]:
    for path in Path("/proc/self/task").glob("*/children"):
        try:
            yield from map(int, path.read_text().split())
        except OSError:
            continue  # the thread has ended meanwhile
