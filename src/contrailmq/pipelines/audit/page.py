"""The page of an audit: one HTML file with its charts and tables inside."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final

from contrailmq.admin.output import byte_size
from contrailmq.pipelines.audit import charts
from contrailmq.version import VERSION

TABLE_ROWS: Final = 200
SKEW_WORTH_SAYING: Final = 1.5
Rows = Sequence[Mapping[str, Any]]

_STYLE: Final = """
:root{--ink:#1d2733;--soft:#5d6a78;--line:#dde3ea;--back:#f5f7fa;--card:#fff;--bad:#b3261e}
@media(prefers-color-scheme:dark){:root{--ink:#e3e8ee;--soft:#9aa7b5;--line:#33404d;
--back:#141a21;--card:#1c242d;--bad:#ff8a80}}
*{box-sizing:border-box}body{margin:0;background:var(--back);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:960px;margin:0 auto;padding:28px 20px 60px}h1{font-size:26px;margin:0}
h2{font-size:18px;margin:0 0 4px}p{margin:4px 0 10px;color:var(--soft)}
section{background:var(--card);border:1px solid var(--line);border-radius:10px;
padding:18px 20px;margin-top:18px}
.numbers{display:grid;grid-template-columns:repeat(auto-fit,minmax(112px,1fr));gap:12px;
margin-top:18px}.numbers div{background:var(--card);border:1px solid var(--line);
border-radius:10px;padding:12px 16px}.numbers b{display:block;font-size:24px;line-height:1.25}
.numbers span{color:var(--soft);font-size:13px}.bad b{color:var(--bad)}
svg{width:100%;height:auto;display:block}svg text{fill:var(--soft);font-size:11px}
.grid{stroke:var(--line)}.key{display:flex;flex-wrap:wrap;gap:4px 16px;font-size:13px}
.key i{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:6px}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:13px;margin-top:8px}
th,td{padding:4px 10px;border-bottom:1px solid var(--line);text-align:left;white-space:nowrap}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}th{color:var(--soft)}
summary{cursor:pointer;color:var(--soft);font-size:13px;margin-top:8px}
"""


def page(
    tables: Mapping[str, Rows], *, source: str, now_ms: int, span: tuple[int | None, int | None]
) -> str:
    """The whole page; times in the tables are milliseconds since 1970."""
    traffic = [row for row in tables.get("traffic", ()) if not _is_inner(row["topic"])]
    hours = _hours(traffic)
    failures, lag, delays = (list(tables.get(name, ())) for name in ("failures", "lag", "delays"))
    sections = [
        _numbers(traffic, failures, lag, delays),
        _traffic(traffic, hours),
        _lag(lag),
        _failures(failures),
        _delays(delays),
        _queues([row for row in tables.get("queues", ()) if not _is_inner(row["topic"])]),
        _keys([row for row in tables.get("keys", ()) if not _is_inner(row["topic"])]),
    ]
    begin, end = (None if ms is None else _text(ms) for ms in span)
    covered = f"{begin or 'the oldest message'} to {end or _text(now_ms)}"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Audit of {escape(source)}</title><style>{_STYLE}</style></head><body><main>"
        f"<h1>Audit of {escape(source)}</h1><p>Messages stored from {escape(covered)}, UTC. "
        f"ContrailMQ {escape(VERSION)}, {_text(now_ms)}.</p>"
        f"{''.join(sections)}</main></body></html>\n"
    )


def _numbers(traffic: Rows, failures: Rows, lag: Rows, delays: Rows) -> str:
    dead = sum(row["dead_letters"] for row in failures)
    worst = max((row["delay_p99_ms"] for row in delays), default=None)
    cells = [
        ("messages", charts.short(_sum(traffic, "messages")), False),
        ("bodies", byte_size(_sum(traffic, "bytes")), False),
        ("topics with messages", str(len({row["topic"] for row in traffic})), False),
        ("consumer lag", charts.short(_sum(lag, "lag")), False),
        ("retries", charts.short(_sum(failures, "retries")), False),
        ("dead letters", charts.short(dead), dead > 0),
        ("worst hour's p99 delay", "-" if worst is None else f"{worst:,} ms", False),
    ]
    inside = "".join(
        f"<div{' class=bad' if is_bad else ''}><b>{escape(value)}</b><span>{name}</span></div>"
        for name, value, is_bad in cells
    )
    return f'<div class="numbers">{inside}</div>'


def _traffic(rows: Rows, hours: Sequence[datetime.datetime]) -> str:
    messages = _series(rows, "topic", "messages")
    order = charts.ranking(messages)
    counts = charts.columns(messages, hours=hours, order=order)
    sizes = charts.columns(_series(rows, "topic", "bytes"), hours=hours, unit="B", order=order)
    head = {
        "topic": "topic", "hour": "hour", "messages": "messages", "per_s": "per s",
        "peak_per_s": "busiest s", "bytes": "bytes", "size_p50": "size p50", "size_p99": "size p99",
        "send_p50_ms": "store ms p50", "send_p99_ms": "store ms p99",
    }  # fmt: skip
    return _section(
        "Messages an hour", "By topic; the busiest topics have a colour of their own.",
        f"{counts}<h2>Bytes an hour</h2>{sizes}{_table(rows, head)}",
    )  # fmt: skip


def _lag(rows: Rows) -> str:
    sums: dict[str, float] = {}
    for row in rows:
        if not _is_inner(row["topic"]):
            name = f"{row['group']} · {row['topic']}"
            sums[name] = sums.get(name, 0) + row["lag"]
    ranked = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    head = {
        "group": "group", "topic": "topic", "broker": "broker", "queue_id": "queue",
        "end_offset": "end", "committed": "committed", "lag": "lag",
        "last_consumed": "last consumed",
    }  # fmt: skip
    text = "Messages a group has still before it, when the audit was made."
    return _section("Lag of groups", text, charts.bars(ranked) + _table(rows, head), rows)


def _failures(rows: Rows) -> str:
    hours = _hours(rows)
    series = {
        f"{kind}, {group}": values
        for kind, column in (("retries", "retries"), ("dead letters", "dead_letters"))
        for group, values in _series(rows, "group", column).items()
        if any(values.values())
    }
    head = {
        "group": "group", "topic": "topic", "hour": "hour", "retries": "retries",
        "dead_letters": "dead letters",
    }  # fmt: skip
    inside = charts.columns(series, hours=hours) + _table(rows, head)
    return _section("Retries and dead letters an hour", "By consumer group.", inside, rows)


def _delays(rows: Rows) -> str:
    hours = _hours(rows)
    series: dict[str, dict[datetime.datetime, float]] = {}
    for row in rows:
        for share in ("p50", "p99"):
            name = f"{row['topic']} → {row['group']} {share}"
            series.setdefault(name, {})[_moment(row["hour"])] = row[f"delay_{share}_ms"]
    head = {
        "topic": "topic", "group": "group", "hour": "hour", "messages": "messages",
        "delay_p50_ms": "delay p50", "delay_p95_ms": "p95", "delay_p99_ms": "p99",
        "delay_max_ms": "max", "work_p50_ms": "work p50", "work_p99_ms": "work p99",
        "failed_attempts": "failed",
    }  # fmt: skip
    inside = charts.lines(series, hours=hours, unit=" ms") + _table(rows, head)
    text = "From the call of send to the first attempt of a consumer, where clients trace."
    return _section("End-to-end delay", text, inside, rows)


def _queues(rows: Rows) -> str:
    worst = sorted(rows, key=lambda row: (-row["skew"], row["topic"], row["queue_id"]))
    shown = [
        (f"{row['topic']} · {row['broker']}/{row['queue_id']}", row["skew"])
        for row in worst
        if row["skew"] >= SKEW_WORTH_SAYING
    ]
    head = {
        "topic": "topic", "broker": "broker", "queue_id": "queue", "messages": "messages",
        "bytes": "bytes", "skew": "skew",
    }  # fmt: skip
    said = (
        charts.bars(shown, unit=" times")
        if shown
        else "<p>No queue has 1.5 times the mean of its topic or more.</p>"
    )
    text = "How many times the mean of its topic a queue has."
    return _section("Skew of queues", text, said + _table(worst, head), rows)


def _keys(rows: Rows) -> str:
    first = sorted((row for row in rows if row["rank"] == 1), key=lambda row: -row["share"])
    shown = [(f"{row['topic']} · {row['key']}", 100 * row["share"]) for row in first]
    head = {
        "topic": "topic", "rank": "rank", "key": "key", "messages": "messages", "share": "share",
        "keys_of_topic": "keys of the topic",
    }  # fmt: skip
    text = "The share of a topic's messages that its most frequent key has."
    return _section("Skew of keys", text, charts.bars(shown, unit=" %") + _table(rows, head), rows)


def _section(title: str, text: str, inside: str, rows: Rows | None = None) -> str:
    body = inside if rows is None or rows else "<p>Nothing to show.</p>"
    return f"<section><h2>{title}</h2><p>{text}</p>{body}</section>"


def _table(rows: Rows, head: Mapping[str, str]) -> str:
    if not rows:
        return ""
    numeric = {name for name in head if isinstance(rows[0][name], int | float)} - {"hour"}
    numeric.discard("last_consumed")
    top = "".join(f"<th{_class(name, numeric)}>{title}</th>" for name, title in head.items())
    lines = "".join(
        "<tr>"
        + "".join(f"<td{_class(n, numeric)}>{escape(_cell(n, row[n]))}</td>" for n in head)
        + "</tr>"
        for row in rows[:TABLE_ROWS]
    )
    more = f", the first {TABLE_ROWS}" if len(rows) > TABLE_ROWS else ""
    return (
        f"<details><summary>{len(rows):,} row{'s' if len(rows) != 1 else ''}{more}</summary>"
        f'<div class="wide"><table><tr>{top}</tr>{lines}</table></div></details>'
    )


def _class(name: str, numeric: set[str]) -> str:
    return ' class="n"' if name in numeric else ""


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name in ("hour", "last_consumed"):
        return _text(value)
    if name == "share":
        return f"{value:.1%}"
    return (
        f"{value:,.2f}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )


def _series(rows: Rows, name: str, value: str) -> dict[str, dict[datetime.datetime, float]]:
    found: dict[str, dict[datetime.datetime, float]] = {}
    for row in rows:
        hours = found.setdefault(str(row[name]), {})
        hour = _moment(row["hour"])
        hours[hour] = hours.get(hour, 0) + row[value]
    return found


def _hours(rows: Iterable[Mapping[str, Any]]) -> list[datetime.datetime]:
    """Every hour from the first to the last, the empty ones too; at most a month of them."""
    found = sorted({_moment(row["hour"]) for row in rows})
    if not found:
        return []
    count = int((found[-1] - found[0]).total_seconds() // 3600) + 1
    if count > 24 * 31:
        return found
    return [found[0] + datetime.timedelta(hours=number) for number in range(count)]


def _sum(rows: Rows, name: str) -> float:
    return float(sum(row[name] for row in rows))


def _is_inner(topic: str) -> bool:
    return topic.startswith("%")


def _moment(ms: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC)


def _text(ms: int) -> str:
    return _moment(ms).strftime("%Y-%m-%d %H:%M")
