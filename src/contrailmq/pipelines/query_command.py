"""``contrail sql``: Spark SQL over topics from the command line."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Final, TextIO

from contrailmq.admin.options import EXIT_CODES, connection_options, name_servers
from contrailmq.client.access import NAME_SERVERS_VARIABLE
from contrailmq.pipelines.command_options import account, place, settings, spark_options
from contrailmq.usage import CommandParser, whole

_EPILOG: Final = """\
A table is a topic; names that are not plain words go in backticks: `%DLQ%billing`.
Columns: topic broker queue_id queue_offset body keys tags born_time store_time born_host
message_id unique_key properties reconsume_times sys_flag commit_log_offset.

examples:
  contrail sql "select tags, count(*) from orders where store_time > now() - interval 1 hour
                group by tags"
  contrail sql "select keys, cast(body as string) from orders
                where cast(body as string) like '%refund%'"
  contrail sql --store /var/rocketmq/store "select queue_id, count(*) from orders group by all"
  contrail sql --archive /data/archive --csv "select date(store_time), count(*) from orders
                group by all"
"""


def main(argv: Sequence[str], out: TextIO | None = None) -> int:
    """Run one query and print its rows."""
    options = parser().parse_args(argv)
    out = sys.stdout if out is None else out
    from contrailmq.pipelines.local import command_session
    from contrailmq.pipelines.places import Archive, Cluster, Place, Stores
    from contrailmq.pipelines.query import run, write_rows

    places: list[Place] = []
    if options.store:
        places.append(Stores(paths=tuple(options.store)))
    places += [Archive(path=path) for path in options.archive]
    if not places or options.namesrv or os.environ.get(NAME_SERVERS_VARIABLE):
        places.append(Cluster(name_servers=name_servers(options), **account(options)))
    with command_session("contrail sql", settings=settings(options), **place(options)) as s:
        frame = run(s, options.query, places=places)
        count = write_rows(frame, out, style=options.style, rows_max=options.rows)
    if options.style == "table" and count == options.rows:
        sys.stderr.write(f"(the first {count:,} rows; --rows N shows more)\n")
    return 0


def parser() -> argparse.ArgumentParser:
    """The options of ``contrail sql``."""
    top = CommandParser(
        prog="contrail sql",
        description="Spark SQL over topics, store directories and archives.",
        epilog=f"{_EPILOG}\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[connection_options(), spark_options()],
    )
    top.add_argument("query", help="one SELECT")
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
