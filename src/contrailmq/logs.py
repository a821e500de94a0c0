"""Where the log of a server goes, and in which form.

One line per event: text by default, or one JSON object with ``--log-format json``.  Messages of
this package are a fixed text and ``key=%s`` arguments, so that in JSON each argument is a field of
its own.  ``--log-file`` writes to a file that begins anew before it is too large; the ones before
are kept as ``.1``, ``.2`` and so on.  Everything else goes to standard error.
"""

from __future__ import annotations

import argparse
import enum
import json
import logging
import logging.handlers
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from contrailmq.errors import ConfigError

LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("text", "json")
TEXT_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s %(message)s"
FILE_SIZE_MAX: Final = 64 * 1024 * 1024
FILES_KEPT: Final = 5
OWN: Final = "contrailmq"
_KEYS: Final = re.compile(r"(\w+)=%[-+0-9.]*[a-z]")
_RESERVED: Final = frozenset({"time", "level", "logger", "event", "error", "trace"})


class LogLevel(enum.Enum):
    """What is logged while a server runs."""

    AS_STARTED = ""
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def add_log_options(parser: argparse.ArgumentParser, *, level: str = "warning") -> None:
    """The options of the log that every server has."""
    parser.add_argument(
        "--log-level", default=level, choices=LEVELS, help=f"what is logged; {level} if not given"
    )
    add_form_options(parser)


def add_form_options(parser: argparse.ArgumentParser) -> None:
    """The options of the log besides its level."""
    parser.add_argument(
        "--log-format", default="text", choices=FORMATS, help="lines of text, or JSON objects"
    )
    parser.add_argument(
        "--log-file", type=Path, metavar="FILE",
        help=f"log there instead of stderr; {FILE_SIZE_MAX >> 20} MiB, {FILES_KEPT} older are kept",
    )  # fmt: skip


def begin_logging(options: argparse.Namespace) -> None:
    """Log as the options say; raises ConfigError for a file that cannot be written."""
    handler: logging.Handler
    if options.log_file is None:
        handler = logging.StreamHandler(sys.stderr)
    else:
        try:
            options.log_file.parent.mkdir(parents=True, exist_ok=True)
            handler = logging.handlers.RotatingFileHandler(
                options.log_file, maxBytes=FILE_SIZE_MAX, backupCount=FILES_KEPT, encoding="utf-8"
            )
        except OSError as error:
            raise ConfigError(
                f"--log-file {options.log_file}: {error.strerror}; give a file that can be written"
            ) from error
    handler.setFormatter(
        JsonFormatter() if options.log_format == "json" else logging.Formatter(TEXT_FORMAT)
    )
    logging.basicConfig(level=options.log_level.upper(), handlers=[handler])


def log_arguments(options: argparse.Namespace, *, suffix: str) -> list[str]:
    """The same options for a process of its own; a file gets another name."""
    found = ["--log-level", options.log_level, "--log-format", options.log_format]
    if options.log_file is not None:
        path = options.log_file
        found += ["--log-file", str(path.with_name(f"{path.stem}-{suffix}{path.suffix}"))]
    return found


def set_level(level: LogLevel) -> None:
    """Log what this package says from another level on."""
    is_set = level is not LogLevel.AS_STARTED
    logging.getLogger(OWN).setLevel(level.value.upper() if is_set else logging.NOTSET)


class JsonFormatter(logging.Formatter):
    """One JSON object per event: ``time`` in UTC, ``level``, ``logger``, ``event``, the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The event as one line."""
        moment = datetime.fromtimestamp(record.created, UTC)
        found: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
        }
        found |= _event(record)
        if record.exc_info and record.exc_info[1] is not None:
            found["error"] = repr(record.exc_info[1])
            found["trace"] = self.formatException(record.exc_info)
        return json.dumps(found, ensure_ascii=False, default=str)


def _event(record: logging.LogRecord) -> dict[str, Any]:
    """The fixed text of a message, and its arguments by name; else the message as a whole."""
    keys = _KEYS.findall(str(record.msg))
    values: Sequence[Any] = record.args if isinstance(record.args, tuple) else ()
    if not keys or len(keys) != len(values):
        return {"event": record.getMessage()}
    fields = {
        f"{key}_" if key in _RESERVED else key: _plain(value)
        for key, value in zip(keys, values, strict=True)
    }
    text = str(record.msg)
    return {"event": text[: text.index(f"{keys[0]}=%")].rstrip(" :("), **fields}


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else str(value)
