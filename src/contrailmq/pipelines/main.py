"""``contrail pipeline``: the command lines of the pipelines."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TextIO

from contrailmq.admin.moments import moment
from contrailmq.admin.options import connection_options, name_servers, new_parser, sub_command
from contrailmq.admin.output import Printer, json_line
from contrailmq.clock import SystemClock
from contrailmq.pipelines.command_options import (
    account,
    names,
    pair,
    place,
    settings,
    spark_options,
)
from contrailmq.pipelines.progress import Progress, Stop
from contrailmq.pipelines.report import Report
from contrailmq.pipelines.tables import command as tables
from contrailmq.usage import positive, seconds, whole

INTERRUPTED: Final = 130
_EPILOG: Final = """\
examples:
  contrail pipeline archive orders,payments --out /data/archive
  contrail pipeline archive --store /var/rocketmq/store orders --out /data/archive
  contrail pipeline table orders --format delta --out /data/lake/orders --once --fetch-jars
  contrail pipeline restore /data/archive --topics orders --to orders_again
  contrail pipeline redrive billing --where "tags = 'paid'" --dry-run
  contrail pipeline redrive billing --set "body=replace(cast(body as string), 'EUR', 'USD')"
  contrail pipeline replay orders --to orders --to-namesrv staging:9876 --since 2h --speed 10
  contrail pipeline audit --since 1d --out /tmp/audit
  contrail pipeline project archive ./my-archive --topics orders

Ctrl-C stops after what is under way; the same command then goes on from there.
"""


def main(argv: Sequence[str], out: TextIO | None = None) -> int:
    """Run one pipeline."""
    options = parser().parse_args(argv)
    if options.act is _project:
        code: int = options.act(options, out)
        return code
    out = sys.stdout if out is None else out
    from contrailmq.pipelines.local import command_session

    stop = Stop()
    progress = Progress(options.act_name, None if options.json else sys.stderr)
    with command_session(
        f"contrail {options.act_name}", settings=_settings(options), **place(options)
    ) as spark:
        progress.restart()
        with stop.on_interrupt():
            report: Report = options.act(spark, options, progress=progress, stop=stop)
    if getattr(options, "report", None):
        from contrailmq.pipelines.message_report import write

        write(report.messages, options.report)
    elif report.messages and not options.json:
        shown = ["message_id", "keys", "tags", "target", "status", "error"]
        Printer(out).rows(report.messages, shown)
    if options.json:
        for message in [] if getattr(options, "report", None) else report.messages:
            out.write(json_line(message))
        out.write(json_line(report.as_row()))
    else:
        print(report.summary(), file=out)
    failed = report.pipeline == "redrive" and report.facts.get("failed", 0)
    return INTERRUPTED if report.is_stopped else 1 if failed else 0


def _settings(options: argparse.Namespace) -> dict[str, str]:
    if getattr(options, "format", None) is None:
        return settings(options)
    return tables.session_settings(options, settings(options))


def _table(spark: Any, options: argparse.Namespace, *, progress: Progress, stop: Stop) -> Any:
    return tables.act(spark, options, source=_source(options), progress=progress, stop=stop)


def _archive(spark: Any, options: argparse.Namespace, *, progress: Progress, stop: Stop) -> Any:
    from contrailmq.pipelines.archive import run

    return run(
        spark, _source(options), options.out, topics=names(options.topics),
        topics_pattern=options.pattern, name=options.name, starting=options.start,
        group=options.group, follow_s=options.follow, batch_rows=options.batch_rows,
        file_size=options.file_mb * 1024 * 1024, progress=progress, stop=stop,
    )  # fmt: skip


def _compact(spark: Any, options: argparse.Namespace, *, progress: Progress, stop: Stop) -> Any:
    from contrailmq.pipelines.compact import compact

    return compact(spark, options.archive, file_size=options.file_mb * 1024 * 1024, stop=stop)


def _restore(spark: Any, options: argparse.Namespace, *, progress: Progress, stop: Stop) -> Any:
    from contrailmq.pipelines.restore import run

    return run(
        spark, options.archive, _cluster(options), to=options.to, topics=names(options.topics),
        where=options.where, since_ms=options.since, until_ms=options.until, again=options.again,
        table=tables.table_of(options), progress=progress, stop=stop,
    )  # fmt: skip


def _redrive(spark: Any, options: argparse.Namespace, *, progress: Progress, stop: Stop) -> Any:
    from contrailmq.pipelines.places import Stores
    from contrailmq.pipelines.redrive import run

    return run(
        spark, _cluster(options), groups=names(options.groups), where=options.where,
        source=Stores(paths=tuple(options.store)) if options.store else None,
        change=dict(options.set), transform=options.transform, to=options.to, rate=options.rate,
        dry_run=options.dry_run, progress=progress, stop=stop,
    )  # fmt: skip


def _replay(spark: Any, options: argparse.Namespace, *, progress: Progress, stop: Stop) -> Any:
    from contrailmq.pipelines.places import Archive, Cluster
    from contrailmq.pipelines.replay import run

    target = (
        Cluster(name_servers=options.to_namesrv, **account(options))
        if options.to_namesrv
        else _cluster(options)
    )
    state = options.state or Path(f".contrail-replay-{options.topic}-{options.to}.json")
    return run(
        spark, Archive(path=options.archive) if options.archive else _source(options), target,
        topic=options.topic, to=options.to, state=state, since_ms=options.since,
        until_ms=options.until, speed=options.speed, where=options.where, again=options.again,
        progress=progress, stop=stop,
    )  # fmt: skip


def _audit(spark: Any, options: argparse.Namespace, *, progress: Progress, stop: Stop) -> Any:
    from contrailmq.pipelines.audit.run import run

    return run(
        spark, _source(options), options.out, topics=names(options.topics),
        since_ms=options.since, until_ms=options.until, trace_topic=options.trace_topic,
        progress=progress, stop=stop,
    )  # fmt: skip


def _project(options: argparse.Namespace, out: TextIO | None) -> int:
    from contrailmq.pipelines.project import create

    if options.kind == "replay" and options.until is None:
        options.until = SystemClock().now_ms()
    given = {
        "nameServers": name_servers(options), "accessKey": options.access_key,
        "topics": options.topics, "groups": options.groups, "query": options.query,
        "archive": _whole_path(options.archive),
        "since": options.since, "until": options.until, "to": options.to,
        "toNameServers": options.to_namesrv, "speed": options.speed, "where": options.where,
        "rate": options.rate, "format": options.format, "schema": options.schema,
    }  # fmt: skip
    settings = {name: str(value) for name, value in given.items() if value is not None}
    directory = options.directory or Path(f"contrail-{options.kind}")
    made = create(options.kind, directory, settings=settings)
    for path in made:
        print(path, file=out)
    print(f"run it: cd {directory} && spark-pipelines run (README.md has more)", file=out)
    return 0


def _whole_path(text: str | None) -> str | None:
    return text if text is None or "://" in text else str(Path(text).absolute())


def _cluster(options: argparse.Namespace) -> Any:
    from contrailmq.pipelines.places import Cluster

    return Cluster(name_servers=name_servers(options), **account(options))


def _source(options: argparse.Namespace) -> Any:
    from contrailmq.pipelines.places import Stores

    return Stores(paths=tuple(options.store)) if options.store else _cluster(options)


def _function(text: str) -> Callable[..., Any]:
    module, mark, name = text.partition(":")
    sys.path.insert(0, "")
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{text!r}: expected module:function ({error})") from None
    finally:
        sys.path.remove("")
    if not mark or not callable(found):
        raise argparse.ArgumentTypeError(f"{text!r}: expected module:function")
    return found


def _report_path(text: str) -> Path:
    """A file that a report can be written to: found out before messages are sent."""
    from contrailmq.pipelines.message_report import SUFFIXES

    path = Path(text)
    if path.suffix not in SUFFIXES:
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected a name that ends with .csv, .json or .parquet"
        )
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r}: there is no folder {path.parent}")
    return path


def parser() -> argparse.ArgumentParser:
    """The options of ``contrail pipeline``."""
    top = new_parser("pipeline", "Spark pipelines over topics, stores and archives.", _EPILOG)
    listed = "archive|table|restore|compact|redrive|replay|audit|project|init"
    commands = top.add_subparsers(required=True, metavar=listed)
    cluster, spark = connection_options(), spark_options()

    def add(name: str, act: Any, text: str) -> argparse.ArgumentParser:
        parents = [cluster] if act is _project else [cluster, spark]
        found = sub_command(commands, name, act, text, parents=parents)
        found.set_defaults(act_name=name)
        found.add_argument("--json", action="store_true", help="the report as JSON, no bar")
        return found

    _archive_options(add("archive", _archive, "topics into partitioned Parquet, incrementally"))
    table = add("table", _table, "topics into Delta or Iceberg tables, exactly once")
    tables.add_options(table)
    _store_option(table)
    restore = add("restore", _restore, "messages of an archive or a table back into a topic")
    restore.add_argument("archive", help="the archive's directory; with --format a table")
    tables.add_format(restore)
    restore.add_argument("--to", metavar="TOPIC", help="into this topic (else each into its own)")
    restore.add_argument("--topics", metavar="A,B", help="of these topics only")
    _span_options(restore)
    restore.add_argument("--again", action="store_true", help="send once more what was restored")
    merge = add("compact", _compact, "merge the small files of an archive")
    merge.add_argument("archive", help="the archive's directory")
    _file_option(merge)
    _redrive_options(add("redrive", _redrive, "dead letters back to their topics"))
    _replay_options(add("replay", _replay, "a span of a topic again, at its own pace"))
    audit = add("audit", _audit, "rates, sizes, lag, failures, delays and skew, with a page")
    audit.add_argument("topics", nargs="?", metavar="A,B", help="these topics only")
    audit.add_argument("--out", required=True, metavar="DIR", help="for tables and report.html")
    audit.add_argument("--trace-topic", default="RMQ_SYS_TRACE_TOPIC", metavar="TOPIC")
    _store_option(audit)
    _span_options(audit, where=False)
    project = add("project", _project, "write a Spark Declarative Pipelines project")
    _project_options(project)
    _project_options(add("init", _project, "the same as project"))
    return top


def _archive_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("topics", nargs="?", metavar="A,B", help="topics")
    command.add_argument("--pattern", metavar="REGEX", help="topics whose names match")
    command.add_argument("--out", required=True, metavar="DIR", help="the archive")
    _store_option(command)
    command.add_argument("--name", help="tells runs into one archive apart")
    command.add_argument(
        "--start", default="earliest", metavar="WHERE", help="of the first run: earliest or latest"
    )
    command.add_argument("--group", help="a group whose offset follows, to see the lag")
    command.add_argument(
        "--follow", type=seconds, metavar="S", help="go on, a batch every S seconds"
    )
    command.add_argument(
        "--batch-rows",
        type=whole(1),
        default=500_000,
        metavar="N",
        help="messages a batch (500000)",
    )
    _file_option(command)


def _redrive_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("groups", metavar="GROUP,…", help="whose dead letters")
    command.add_argument("--where", metavar="SQL", help="only letters for which this is true")
    command.add_argument(
        "--set", type=pair, action="append", default=[], metavar="COLUMN=SQL",
        help="new body, keys, tags, properties or target; may be repeated",
    )  # fmt: skip
    command.add_argument(
        "--transform", type=_function, metavar="MODULE:FUNCTION",
        help="a Python function that gets and returns the DataFrame",
    )  # fmt: skip
    command.add_argument("--to", metavar="TOPIC", help="all into this topic")
    command.add_argument("--rate", type=positive, metavar="N", help="messages a second at most")
    command.add_argument("--dry-run", action="store_true", help="send nothing, report everything")
    command.add_argument(
        "--report", type=_report_path, metavar="FILE",
        help="one row per message: .csv, .json or .parquet",
    )  # fmt: skip
    _store_option(command)


def _replay_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("topic")
    command.add_argument("--to", required=True, metavar="TOPIC", help="into this topic")
    command.add_argument("--to-namesrv", metavar="ADDR", help="of another cluster")
    command.add_argument(
        "--speed", type=positive, default=1.0, metavar="N", help="times the pace (1)"
    )
    command.add_argument("--archive", metavar="DIR", help="from an archive")
    command.add_argument("--state", type=Path, metavar="FILE", help="where a stopped run is kept")
    command.add_argument(
        "--again", action="store_true", help="start from the beginning and ignore the saved state"
    )
    _store_option(command)
    _span_options(command)


def _project_options(command: argparse.ArgumentParser) -> None:
    kinds = ["archive", "audit", "redrive", "replay", "restore", "sql", "table"]
    command.add_argument("kind", choices=kinds)
    command.add_argument("directory", type=Path, nargs="?", help="a new one (contrail-KIND)")
    command.add_argument("--format", choices=["delta", "iceberg"], help="for table")
    command.add_argument("--schema", metavar="SQL", help="for table: columns of JSON bodies")
    command.add_argument("--topics", metavar="A,B", help="for all but redrive")
    command.add_argument("--groups", metavar="A,B", help="for redrive: whose dead letters")
    command.add_argument("--query", metavar="SQL", help="for sql")
    command.add_argument("--archive", metavar="DIR", help="for restore")
    command.add_argument("--to", metavar="TOPIC", help="for redrive, replay, restore")
    command.add_argument("--to-namesrv", metavar="ADDR", help="for replay: of another cluster")
    command.add_argument(
        "--speed", type=positive, metavar="N", help="for replay: times the pace (1)"
    )
    command.add_argument(
        "--rate", type=positive, metavar="N", help="for redrive: messages a second"
    )
    _span_options(command)


def _span_options(command: argparse.ArgumentParser, *, where: bool = True) -> None:
    for name in ("since", "until"):
        command.add_argument(
            f"--{name}", type=moment, metavar="WHEN", help="2h (ago), or a local time"
        )
    if where:
        command.add_argument("--where", metavar="SQL", help="only messages with this")


def _store_option(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--store", action="append", default=[], metavar="DIR",
        help="read from this store directory; may be repeated",
    )  # fmt: skip


def _file_option(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--file-mb", type=whole(1), default=128, metavar="MB", help="size of files to aim at (128)"
    )
