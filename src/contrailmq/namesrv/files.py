"""Small files that are replaced whole: the newest, and the one before it as ``.bak``."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from contrailmq.errors import ConfigError, ProtocolError

T = TypeVar("T")
log = logging.getLogger(__name__)


def make_folder(folder: Path) -> None:
    """Make a folder if it is not there, and try that files can be made in it; raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=folder).close()


def write_replacing(path: Path, data: bytes) -> None:
    """Put ``data`` in the place of a file; at no moment is there neither old nor new. Blocks."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    backup = path.with_name(path.name + ".bak")
    if path.exists():
        backup.unlink(missing_ok=True)
        os.link(path, backup)  # unlike a rename it leaves the file in its place meanwhile
    temporary.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def read_newest(path: Path, parse: Callable[[bytes], T]) -> T | None:
    """What ``parse`` makes of a file, or of its backup if it is torn; None if neither is there."""
    problems: list[str] = []
    for candidate in (path, path.with_name(path.name + ".bak")):
        try:
            data = candidate.read_bytes()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise ConfigError(f"{candidate} cannot be read: {error}") from error
        try:
            if not data.strip():
                raise ProtocolError("the file is empty")
            found = parse(data)
        except ProtocolError as error:
            problems.append(f"{candidate}: {error}")
            log.warning("file is damaged: path=%s reason=%s", candidate, error)
            continue
        return found
    if problems:
        raise ConfigError("; ".join(problems))
    return None
