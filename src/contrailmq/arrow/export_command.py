"""``contrail export``: a topic as Parquet files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, Final, TextIO

from contrailmq.admin.moments import moment, start_moment
from contrailmq.admin.options import (
    EXIT_CODES,
    client_settings,
    connection_options,
    json_option,
    name_servers,
)
from contrailmq.admin.output import Printer
from contrailmq.arrow.given import need_pyarrow
from contrailmq.arrow.reading import read_store, read_topic
from contrailmq.errors import UsageError
from contrailmq.usage import CommandParser, whole

ROWS_PER_FILE: Final = 1_000_000
COMPRESSIONS: Final = ("zstd", "snappy", "gzip", "lz4", "none")
_WORDS: Final = {"first": "earliest", "last": "latest"}
_EPILOG: Final = """\
examples:
  contrail export orders --parquet /data/orders
  contrail export orders --parquet /data/orders --from 1d --columns keys,tags,body,store_time
  contrail export orders --parquet /data/orders --store /var/rocketmq/store
"""


def main(argv: Sequence[str], out: TextIO | None = None) -> int:
    """Run one command line."""
    options = parser().parse_args(argv)
    need_pyarrow()
    from contrailmq.arrow.parquet import write_files

    compression = None if options.compression == "none" else options.compression
    done = write_files(
        lambda: _reader(options),
        options.parquet,
        rows_per_file=options.rows_per_file,
        compression=compression,
    )
    text = f"{done.rows:,} messages in {done.files} files, {done.size:,} bytes: {options.parquet}"
    found = {"rows": done.rows, "files": done.files, "bytes": done.size}
    Printer(sys.stdout if out is None else out, as_json=options.json).value(found, text)
    return 0


def _reader(options: argparse.Namespace) -> Any:
    chosen: dict[str, Any] = {
        "columns": options.columns.split(",") if options.columns else None,
        "since": _WORDS.get(options.start, options.start),
        "until": options.until,
        "tags": options.tags,
        "properties": options.properties,
    }
    if not options.store:
        return read_topic(
            options.topic, name_servers=name_servers(options), sql=options.sql,
            **chosen, **access_keywords(options),
        )  # fmt: skip
    if options.sql is not None:
        raise UsageError("--sql is judged by brokers; leave out --store, or use --tags")
    return read_store(options.store, topics=options.topic, **chosen)


def access_keywords(options: argparse.Namespace) -> dict[str, Any]:
    """The account and the protection that a command line names, as keywords of ``read_topic``."""
    settings = client_settings(options)
    found: dict[str, Any] = {"timeout_ms": max(1, int(options.timeout * 1000))}
    found["patience_ms"] = found["timeout_ms"]
    if settings.credentials is not None:
        found["access_key"] = settings.credentials.access_key
        found["secret_key"] = settings.credentials.secret_key
    if settings.tls is not None:
        tls = settings.tls
        found |= {"tls": True, "tls_ca": tls.ca, "tls_cert": tls.cert, "tls_key": tls.key}
        found["tls_verify"] = tls.verify
    return found


def parser() -> argparse.ArgumentParser:
    """The options of ``contrail export``."""
    top = CommandParser(
        prog="contrail export",
        description="Write the messages of a topic into Parquet files.",
        epilog=f"{_EPILOG}\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[connection_options()],
    )
    top.add_argument("topic", metavar="TOPIC")
    top.add_argument(
        "--parquet", required=True, metavar="DIR", help="an empty or new folder for the files"
    )
    top.add_argument(
        "--store", action="append", default=[], metavar="DIR",
        help="read this store directory; no broker is asked; may be repeated",
    )  # fmt: skip
    top.add_argument("--columns", metavar="NAMES", help="with commas between them (all)")
    top.add_argument(
        "--from", dest="start", type=start_moment, default="first", metavar="WHERE",
        help="first, 10m (ago), or a local time (first)",
    )  # fmt: skip
    top.add_argument("--until", type=moment, metavar="WHEN", help="messages before this moment")
    choice = top.add_mutually_exclusive_group()
    choice.add_argument("--tags", metavar="EXPR", help="for example 'paid || refunded'")
    choice.add_argument("--sql", metavar="EXPR", help="for example 'amount > 100'")
    top.add_argument(
        "--properties", choices=("all", "own"), default="all",
        help="own: without those that clients and brokers make (all)",
    )  # fmt: skip
    top.add_argument(
        "--rows-per-file", type=whole(1), default=ROWS_PER_FILE, metavar="N",
        help=f"messages in one file ({ROWS_PER_FILE})",
    )  # fmt: skip
    top.add_argument("--compression", choices=COMPRESSIONS, default="zstd", help="of pages (zstd)")
    json_option(top)
    return top
