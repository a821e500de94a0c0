"""``contrail sql``: SQL over topics from the command line, by Spark or by DuckDB."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Final, TextIO

from contrailmq.admin.options import EXIT_CODES, connection_options, name_servers
from contrailmq.arrow.export_command import access_keywords
from contrailmq.client.access import NAME_SERVERS_VARIABLE
from contrailmq.errors import UsageError
from contrailmq.pipelines.command_options import account, place, settings, spark_options
from contrailmq.usage import CommandParser, whole

_EPILOG: Final = """\
A table is a topic; names that are not plain words go in backticks: `%DLQ%billing`
(with --engine duckdb in double quotes).
Columns: topic broker queue_id queue_offset body keys tags born_time store_time born_host
message_id unique_key properties reconsume_times sys_flag commit_log_offset.

examples:
  contrail sql "select tags, count(*) from orders where store_time > now() - interval 1 hour
                group by tags"
  contrail sql "select keys, cast(body as string) from orders
                where cast(body as string) like '%refund%'"
  contrail sql --store /var/rocketmq/store "select queue_id, count(*) from orders group by all"
  contrail sql --engine duckdb "select tags, count(*) from orders group by tags"
  contrail sql --archive /data/archive --csv "select date(store_time), count(*) from orders
                group by all"
"""


def main(argv: Sequence[str], out: TextIO | None = None) -> int:
    """Run one query and print its rows."""
    options = parser().parse_args(argv)
    out = sys.stdout if out is None else out
    count = _by_duckdb(options, out) if options.engine == "duckdb" else _by_spark(options, out)
    if options.style == "table" and count == options.rows:
        sys.stderr.write(f"(the first {count:,} rows; --rows N shows more)\n")
    return 0


def _by_spark(options: argparse.Namespace, out: TextIO) -> int:
    from contrailmq.pipelines.local import command_session
    from contrailmq.pipelines.places import Archive, Cluster, Place, Stores
    from contrailmq.pipelines.query import run, write_rows

    places: list[Place] = []
    if options.store:
        places.append(Stores(paths=tuple(options.store)))
    places += [Archive(path=path) for path in options.archive]
    if _asks_brokers(options):
        places.append(Cluster(name_servers=name_servers(options), **account(options)))
    with command_session("contrail sql", settings=settings(options), **place(options)) as s:
        frame = run(s, options.query, places=places)
        return write_rows(frame, out, style=options.style, rows_max=options.rows)


def _by_duckdb(options: argparse.Namespace, out: TextIO) -> int:
    from contrailmq.arrow import duck
    from contrailmq.arrow.reading import read_store, read_topic

    for name in ("archive", "master", "remote", "conf"):
        if getattr(options, name):
            raise UsageError(f"--{name} is for Spark; leave it out with --engine duckdb")
    places: list[duck.Open] = []
    if options.store:
        places.append(lambda name, columns: read_store(options.store, topics=name, columns=columns))
    if _asks_brokers(options):
        access = access_keywords(options)
        places.append(
            lambda name, columns: read_topic(
                name, name_servers=name_servers(options), columns=columns, **access
            )
        )
    return duck.run(options.query, out, places=places, style=options.style, rows_max=options.rows)


def _asks_brokers(options: argparse.Namespace) -> bool:
    """Whether topics of a cluster are meant, too."""
    has_other = bool(options.store or options.archive)
    return not has_other or bool(options.namesrv or os.environ.get(NAME_SERVERS_VARIABLE))


def parser() -> argparse.ArgumentParser:
    """The options of ``contrail sql``."""
    top = CommandParser(
        prog="contrail sql",
        description="SQL over topics, store directories and archives.",
        epilog=f"{_EPILOG}\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[connection_options(), spark_options()],
    )
    top.add_argument("query", help="one SELECT")
    top.add_argument(
        "--engine", choices=("spark", "duckdb"), default="spark",
        help="duckdb answers small questions in a second, without Java (spark)",
    )  # fmt: skip
    top.add_argument(
        "--store", action="append", default=[], metavar="DIR",
        help="topics of this store directory; no broker is asked",
    )  # fmt: skip
    top.add_argument(
        "--archive", action="append", default=[], metavar="DIR", help="topics of this archive"
    )
    style = top.add_mutually_exclusive_group()
    for name in ("csv", "json"):
        style.add_argument(
            f"--{name}", dest="style", action="store_const", const=name,
            help=f"rows as {name.upper()}" + (", one object a line" if name == "json" else ""),
        )  # fmt: skip
    top.add_argument("--rows", type=whole(0), default=None, metavar="N", help="no more than N rows")
    top.set_defaults(style="table")
    return top
