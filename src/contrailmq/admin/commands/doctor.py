"""``contrail doctor``: looks at a cluster from here, and says what is wrong and what helps."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final, TextIO

from contrailmq.admin.client import AdminClient
from contrailmq.admin.doctor.cluster import (
    examine_brokers,
    examine_name_servers,
    examine_permissions,
    examine_routes,
)
from contrailmq.admin.doctor.findings import Chart, Finding, Severity, counted
from contrailmq.admin.doctor.groups import examine_groups
from contrailmq.admin.doctor.protection import examine_protection
from contrailmq.admin.doctor.replicas import examine_replicas
from contrailmq.admin.options import json_option, new_parser, with_admin
from contrailmq.admin.output import Printer
from contrailmq.errors import NoRoute
from contrailmq.usage import seconds

_EPILOG: Final = """\
It looks at: name servers, routes, broker addresses from here, clocks, disks, versions, permissions,
open ports, certificates that end, subscriptions that disagree within a group, queues that do not
move (also those of groups that have never committed an offset), retries, dead letters.

examples:
  contrail doctor
  contrail doctor --topic orders        also why this topic cannot be found
  contrail doctor --all                 what is well, too

Exit code 1: at least one problem (warnings and notes do not count).
"""
_MARKS: Final = {
    Severity.OK: "ok     ",
    Severity.NOTE: "note   ",
    Severity.WARNING: "WARNING",
    Severity.PROBLEM: "PROBLEM",
}


def main(argv: Sequence[str], out: TextIO | None = None) -> int:
    """Run one command line."""
    options = parser().parse_args(argv)
    printer = Printer(out, as_json=options.json)
    return with_admin(options, lambda admin: _examine(admin, options, printer))


async def _examine(admin: AdminClient, options: argparse.Namespace, printer: Printer) -> int:
    chart = Chart()
    known = await examine_name_servers(admin, chart)
    if known is not None:
        masters = await examine_brokers(admin, chart, known)
        await examine_replicas(admin, chart, known)
        if masters:
            await examine_routes(admin, chart, masters)
            await examine_permissions(admin, chart, masters)
            await examine_protection(admin, chart, masters)
            if options.topic is not None:
                await _topic(admin, chart, options.topic, masters)
            await examine_groups(admin, chart, watch_s=options.watch)
    for finding in chart.findings:
        if finding.severity is not Severity.OK or options.all or printer.as_json:
            _tell(printer, finding)
    counts = {s: sum(f.severity is s for f in chart.findings) for s in Severity}
    named = [counted(counts[s], s.value) for s in reversed(Severity) if s is not Severity.OK]
    printer.say(", ".join([*named, f"{counted(counts[Severity.OK], 'check')} well"]))
    return 1 if counts[Severity.PROBLEM] else 0


async def _topic(admin: AdminClient, chart: Chart, topic: str, masters: dict[str, str]) -> None:
    """Why clients say "No route info of this topic"."""
    try:
        route = await admin.route(topic)
    except NoRoute:
        automatic = [
            name
            for name, address in masters.items()
            if (await admin.brokers.config(address)).get("autoCreateTopicEnable") == "true"
        ]
        chart.add(
            Severity.PROBLEM, "route", f"no broker has the topic {topic}",
            cause="it has not been created"
            + (" (the first send will)" if automatic else "; autoCreateTopicEnable is false"),
            fix=f"contrail topic create {topic}",
        )  # fmt: skip
        return
    queues = sum(data.write_queue_nums for data in route.queue_datas if data.perm & 2)
    if queues:
        chart.ok("route", f"topic {topic} has {queues} queues to write to")
    else:
        chart.add(
            Severity.PROBLEM, "route", f"topic {topic} has no queue that can be written to",
            cause="its permission, or the broker's, was taken away",
            fix=f"contrail topic create {topic} --perm rw",
        )  # fmt: skip


def _tell(printer: Printer, finding: Finding) -> None:
    printer.value(
        {
            "check": finding.check,
            "severity": finding.severity.value,
            "text": finding.text,
            "cause": finding.cause,
            "fix": finding.fix,
        },
        f"{_MARKS[finding.severity]} {finding.check}: {finding.text}",
    )
    if finding.cause:
        printer.say(f"          cause: {finding.cause}")
    if finding.fix:
        printer.say(f"          fix:   {finding.fix}")


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    top = new_parser("doctor", "Find what is wrong, and the remedy.", _EPILOG, connects=True)
    top.add_argument("-t", "--topic", help="look for this topic's route too")
    top.add_argument("-a", "--all", action="store_true", help="say what is well, too")
    top.add_argument(
        "--watch", type=seconds, default=6.0, metavar="S", help="seconds between two looks (6)"
    )
    json_option(top)
    return top
