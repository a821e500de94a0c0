"""``contrail pipeline table``: its options, and what they mean."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

from contrailmq.errors import ConfigError, UsageError
from contrailmq.pipelines.command_options import names
from contrailmq.pipelines.tables import jars
from contrailmq.usage import seconds, whole

EVERY_S: Final = 30.0
_BODIES: Final = ("raw", "json", "avro")


def add_options(command: argparse.ArgumentParser) -> None:
    """The options of the command, except where messages come from."""
    command.add_argument("topics", nargs="?", metavar="A,B", help="topics")
    command.add_argument(
        "--pattern", metavar="REGEX", help="topics whose names match, also those that come later"
    )
    command.add_argument(
        "--out", required=True, metavar="TABLE",
        help="a folder, or a name in a catalog; with {topic} in it one table per topic",
    )  # fmt: skip
    add_format(command, required=True)
    ending = command.add_mutually_exclusive_group()
    ending.add_argument("--once", action="store_true", help="write what is there, then end")
    ending.add_argument(
        "--every", type=seconds, default=EVERY_S, metavar="S",
        help="go on, a batch every S seconds (30)",
    )  # fmt: skip
    command.add_argument(
        "--body", choices=_BODIES, default="raw",
        help="raw: the columns of a message; json, avro: fields of bodies as columns",
    )  # fmt: skip
    command.add_argument(
        "--schema", metavar="TEXT|FILE",
        help="json: columns as SQL, found in the bodies without it; avro: a file (.avsc)",
    )  # fmt: skip
    command.add_argument("--registry", metavar="URL", help="avro: a Confluent-compatible registry")
    command.add_argument("--keep-body", action="store_true", help="decoded rows keep _body")
    command.add_argument(
        "--partition-by", metavar="A,B", help="columns (the day of the store time); none: -"
    )
    command.add_argument(
        "--upsert", metavar="A,B", help="keep the newest row per key; an empty body deletes its key"
    )
    command.add_argument(
        "--maintain", action="store_true", help="merge small files and forget old versions"
    )
    command.add_argument(
        "--keep-days", type=whole(1), default=7, metavar="N", help="of old versions (7)"
    )
    command.add_argument("--name", help="of this work, for checkpoint and group (from --out)")
    command.add_argument("--checkpoint", metavar="DIR", help="where to go on from (beside --out)")
    command.add_argument("--group", help="whose offset follows, to see the lag (table_NAME)")
    command.add_argument(
        "--start", default="earliest", metavar="WHERE", help="of the first run: earliest or latest"
    )
    command.add_argument(
        "--batch-rows", type=whole(1), default=500_000, metavar="N",
        help="messages per batch (500000)",
    )  # fmt: skip


def add_format(command: argparse.ArgumentParser, *, required: bool = False) -> None:
    """Options of every command that reads or writes tables."""
    command.add_argument("--format", choices=jars.FORMATS, required=required, help="of the table")
    command.add_argument(
        "--fetch-jars",
        action="store_true",
        help="let Spark fetch the jars from Maven Central",
    )


def session_settings(options: argparse.Namespace, chosen: dict[str, str]) -> dict[str, str]:
    """The settings of a session for tables: ours, with what the user chose over or beside them."""
    from contrailmq.pipelines.tables.lake import is_path
    from contrailmq.pipelines.tables.run import root_of
    from contrailmq.spark.versions import version

    place = options.out if options.act_name == "table" else options.archive
    root = _whole(root_of(place)) if is_path(place) else None
    found = jars.settings(options.format, root=root)
    if options.fetch_jars:
        body = getattr(options, "body", "raw")
        found["spark.jars.packages"] = ",".join(jars.packages(options.format, version(), body=body))
    for name in ("spark.jars.packages", "spark.sql.extensions"):
        if name in chosen and name in found:
            chosen = {**chosen, name: f"{found[name]},{chosen[name]}"}
    return {**found, **chosen}


def act(spark: Any, options: argparse.Namespace, *, source: Any, **more: Any) -> Any:
    """Run the command."""
    from contrailmq.pipelines.tables.lake import check_keep_days, is_path
    from contrailmq.pipelines.tables.run import layout, run

    if options.maintain:
        check_keep_days(options.format, options.keep_days)
    partition = None if options.partition_by is None else names(options.partition_by)
    where = layout(
        options.format,
        _whole(options.out) if is_path(options.out) else options.out,
        name=options.name,
        checkpoint=options.checkpoint,
        partition=[] if partition == ["-"] else partition,
        upsert=names(options.upsert),
        maintain=options.maintain,
        keep_days=options.keep_days,
    )
    return run(
        spark, source, where, topics=names(options.topics), topics_pattern=options.pattern,
        bodies=_bodies(options), starting=options.start, group=options.group,
        every_s=None if options.once else options.every, batch_rows=options.batch_rows, **more,
    )  # fmt: skip


def table_of(options: argparse.Namespace) -> Any:
    """The table that a command reads, or None if it reads something else."""
    from contrailmq.pipelines.tables.lake import Table, is_path

    if options.format is None:
        return None
    place = options.archive
    if not is_path(place):
        raise UsageError(f"restore {place}: expected the folder of a table")
    return Table(options.format, _whole(place))


def _bodies(options: argparse.Namespace) -> Any:
    from contrailmq.pipelines.tables import bodies

    if options.body != "avro" and options.registry:
        raise UsageError("--registry belongs to --body avro")
    if options.body == "raw":
        if options.schema:
            raise UsageError("--schema belongs to --body json or avro")
        return bodies.RawBodies()
    if options.body == "json":
        schema = None if options.schema is None else _columns(options.schema)
        return bodies.JsonBodies(schema, keep_body=options.keep_body)
    if bool(options.schema) == bool(options.registry):
        raise UsageError("--body avro needs one of --schema FILE and --registry URL")
    return bodies.AvroBodies(
        None if options.schema is None else _text(options.schema),
        registry=bodies.registry(options.registry) if options.registry else None,
        keep_body=options.keep_body,
    )


def _columns(text: str) -> Any:
    """Columns from SQL, or from a file with SQL or with Spark's JSON in it."""
    import json

    from pyspark.errors import ParseException
    from pyspark.sql.types import StructType

    if Path(text).is_file():
        text = _text(text)
    try:
        if text.lstrip().startswith("{"):
            return StructType.fromJson(json.loads(text))
        return StructType.fromDDL(text)
    except (ParseException, ValueError, KeyError, TypeError):
        raise ConfigError(
            f"--schema {text[:200]!r}: expected columns such as 'id BIGINT, amount DOUBLE', or a"
            " file with them"
        ) from None


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--schema {path}: {error.strerror}; expected a file") from None


def _whole(path: str) -> str:
    return path if "://" in path else str(Path(path).absolute())
