"""``contrail store check|ls|dump|stats DIR``: look into any store directory, changing nothing.

Exit codes: 0 all is well; 1 not found, or the directory is damaged or cannot be read; 2 usage.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final, TextIO

from contrailmq.admin.moments import moment
from contrailmq.admin.output import when
from contrailmq.settings import parse_properties
from contrailmq.store.offline.check import check
from contrailmq.store.offline.dump import Choice, messages, row
from contrailmq.store.offline.findings import Severity
from contrailmq.store.offline.inspect import (
    group_facts,
    log_files,
    queue_facts,
    state,
    topic_facts,
)
from contrailmq.store.offline.reader import StoreReader
from contrailmq.usage import CommandParser, whole

_EPILOG: Final = """\
examples:
  contrail store check ~/store                   is it whole? (exit code 0 or 1)
  contrail store ls ~/store                      topics, messages, times
  contrail store ls ~/store -t Orders            the queues of one topic
  contrail store dump ~/store -t Orders -n 20    the first messages of a topic
  contrail store dump ~/store -t Orders --key order-17 --json
  contrail store dump ~/store --from '2026-11-15 10:00' --tag paid
  contrail store stats ~/store                   the log, the index, the groups

The directory is storePathRootDir of a broker, ours or Java's, running or not (contrail up has
~/.contrailmq/store). Nothing is changed.

exit codes: 0 well, 1 damaged, not readable or not found, 2 wrong usage
"""


def main(argv: Sequence[str], out: TextIO | None = None) -> int:
    """Run one command line."""
    parser = _parser()
    args = parser.parse_args(argv)
    stream = sys.stdout if out is None else out
    with StoreReader(args.directory, commit_logs=_commit_logs(args)) as reader:
        code: int = args.run(reader, args, stream)
    return code


def _check(reader: StoreReader, args: argparse.Namespace, out: TextIO) -> int:
    report = check(reader, deep=not args.quick)
    if args.json:
        for finding in report.findings:
            out.write(_line({**finding._asdict(), "severity": finding.severity.value}))
        out.write(_line({"whole": report.is_whole, "counts": dict(report.counts)}))
        return 0 if report.is_whole else 1
    for finding in report.findings:
        place = finding.path if finding.position < 0 else f"{finding.path} at {finding.position}"
        out.write(f"{finding.severity.value}: {place}: {finding.text}\n")
    for severity in Severity:
        unseen = report.totals[severity] - sum(
            finding.severity is severity for finding in report.findings
        )
        if unseen:
            out.write(f"{severity.value}: {unseen} more\n")
    looked = ", ".join(_several(count, name) for name, count in report.counts.items() if count)
    out.write(f"looked at {looked or 'nothing'}\n")
    damages = report.totals[Severity.DAMAGE]
    out.write("whole\n" if report.is_whole else f"damaged in {_several(damages, 'places')}\n")
    return 0 if report.is_whole else 1


def _ls(reader: StoreReader, args: argparse.Namespace, out: TextIO) -> int:
    facts: Sequence[Any]
    head: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    if args.topic is not None:
        facts = queue_facts(reader, args.topic)
        if not facts:
            out.write(f"no queue of topic {args.topic}\n")
            return 1
        head = ("topic", "queue", "min", "max", "messages", "first stored", "last stored")
        rows = [
            (q.topic, q.queue_id, q.min_offset, q.max_offset, q.messages,
             when(q.first_ms), when(q.last_ms))
            for q in facts
        ]  # fmt: skip
    else:
        facts = topic_facts(reader)
        head = ("topic", "queues", "messages", "first stored", "last stored")
        rows = [(t.topic, t.queues, t.messages, when(t.first_ms), when(t.last_ms)) for t in facts]
    if args.json:
        out.writelines(_line(fact._asdict()) for fact in facts)
    else:
        _table(out, head, rows)
    return 0


def _dump(reader: StoreReader, args: argparse.Namespace, out: TextIO) -> int:
    choice = Choice(
        topic=args.topic,
        queue_id=args.queue,
        begin_ms=args.begin,
        end_ms=args.end,
        start=args.start,
        end=args.stop,
        key=args.key,
        tag=args.tag,
    )
    shown = 0
    for record in messages(reader, choice):
        if args.count is not None and shown >= args.count:
            break
        shown += 1
        if args.json:
            out.write(_line(row(record)))
            continue
        if shown == 1:
            out.write(_DUMP_ROW.format(*_DUMP_HEAD).rstrip() + "\n")
        out.write(
            _DUMP_ROW.format(
                _clip(record.topic, 24), record.queue_id, record.queue_offset,
                record.commit_log_offset, when(record.store_ms), _clip(record.tags or "", 10),
                _clip(" ".join(record.keys) or record.unique_key or "", 32), _body(record),
            ).rstrip()
            + "\n"
        )  # fmt: skip
    if not shown and not args.json:
        out.write("no such message; contrail store ls shows topics and times\n")
    return 0 if shown else 1


def _stats(reader: StoreReader, args: argparse.Namespace, out: TextIO) -> int:
    log, marks, topics = log_files(reader), reader.marks, topic_facts(reader)
    groups = group_facts(reader)
    index_entries = sum(max(0, view.head.next_entry - 1) for view in reader.index.files)
    if args.json:
        out.write(
            _line(
                {
                    "state": state(reader),
                    "log": log._asdict(),
                    "topics": len(topics),
                    "queues": sum(topic.queues for topic in topics),
                    "messages": sum(topic.messages for topic in topics),
                    "index_files": len(reader.index.files),
                    "index_entries": index_entries,
                    "checkpoint": marks._asdict(),
                    "groups": [group._asdict() for group in groups],
                }
            )
        )
        return 0
    lines = [
        ("broker", state(reader)),
        ("log", f"{log.segments} segments of {_size(log.segment_size)}, "
                f"offsets {log.min_offset:,} to {log.max_offset:,}"),
        ("stored", f"{when(log.first_ms)} to {when(log.last_ms)}" if log.first_ms >= 0 else "-"),
        ("topics", f"{len(topics)} with {sum(topic.queues for topic in topics)} queues"),
        ("messages", f"{sum(topic.messages for topic in topics):,}"),
        ("index", f"{len(reader.index.files)} files, {index_entries:,} entries"),
        ("checkpoint", f"log {when(marks.log_ms)}, queues {when(marks.queues_ms)}, "
                       f"index {when(marks.index_ms)}"),
    ]  # fmt: skip
    for name, text in lines:
        out.write(f"{name:<12}{text}\n")
    if groups:
        out.write("\n")
        rows = [(group.group, group.topic, group.queues, group.behind) for group in groups]
        _table(out, ("group", "topic", "queues", "behind"), rows)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="contrail store",
        description="Look into a store directory, ours or Java's, changing nothing.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="check|ls|dump|stats")
    checker = _command(commands, "check", _check, "verify everything; exit code 1 when damaged")
    checker.add_argument("--quick", action="store_true", help="no checksums, tags and keys")
    lister = _command(commands, "ls", _ls, "topics, or the queues of a topic")
    lister.add_argument("-t", "--topic", help="list the queues of this topic")
    dumper = _command(commands, "dump", _dump, "messages, chosen by topic, queue, time, key, tag")
    dumper.add_argument("-t", "--topic", help="of this topic only")
    dumper.add_argument("-q", "--queue", type=whole(0), help="of this queue only")
    dumper.add_argument("--from", dest="begin", type=moment, metavar="TIME", help="stored since")
    dumper.add_argument("--to", dest="end", type=moment, metavar="TIME", help="stored before")
    dumper.add_argument("--start", type=whole(0), metavar="OFFSET", help="first queue offset")
    dumper.add_argument(
        "--stop", type=whole(0), metavar="OFFSET", help="queue offset to stop before"
    )
    dumper.add_argument("--key", help="with this key or unique key (with -t: by the index)")
    dumper.add_argument("--tag", help="with this tag")
    dumper.add_argument("-n", "--count", type=whole(1), help="at most so many")
    _command(commands, "stats", _stats, "the log, the index, the checkpoint, the groups")
    return parser


def _command(commands: Any, name: str, run: Any, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    parser.add_argument("directory", metavar="DIR", help="storePathRootDir of the broker")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--conf", metavar="FILE", help="the broker.conf, if the log lies elsewhere")
    parser.set_defaults(run=run)
    return parser


def _commit_logs(args: argparse.Namespace) -> list[str]:
    if args.conf is None:
        return []
    with open(args.conf, encoding="utf-8") as file:  # noqa: PTH123
        properties = parse_properties(file.read())
    given = ",".join(
        properties.get(name, "") for name in ("storePathCommitLog", "readOnlyCommitLogStorePaths")
    )
    return [part.strip() for part in given.split(",") if part.strip()]


_DUMP_HEAD: Final = ("topic", "queue", "offset", "in the log", "stored", "tag", "keys", "body")
_DUMP_ROW: Final = "{:<24}  {:>5}  {:>8}  {:>12}  {:<23}  {:<10}  {:<32}  {}"
_BODY_WIDTH: Final = 60


def _body(record: Any) -> str:
    text = record.body if record.sys_flag & 1 == 0 else None
    if text is None:
        return f"({len(record.body)} bytes, compressed)"
    try:
        shown = text.decode()
    except UnicodeDecodeError:
        return f"({len(text)} bytes)"
    if not all(char.isprintable() or char in "\n\t" for char in shown):
        return f"({len(text)} bytes)"
    return _clip(" ".join(shown.split()), _BODY_WIDTH)


def _clip(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _several(count: int, plural: str) -> str:
    return f"{count:,} {plural.removesuffix('s') if count == 1 else plural}"


def _size(size: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:g} {name}"
    return f"{size} bytes"


def _line(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"


def _table(out: TextIO, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    texts = [
        [f"{cell:,}" if isinstance(cell, int) else _clip(str(cell), 64) for cell in r] for r in rows
    ]
    numeric = [all(isinstance(r[column], int) for r in rows) for column in range(len(head))]
    widths = [max(map(len, column)) for column in zip(head, *texts, strict=True)]
    for cells in (list(head), *texts):
        out.write(
            "  ".join(
                cell.rjust(width) if right else cell.ljust(width)
                for cell, width, right in zip(cells, widths, numeric, strict=True)
            ).rstrip()
            + "\n"
        )
