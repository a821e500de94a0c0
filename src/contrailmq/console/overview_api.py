"""The overview, the search over names, and what every page shows about the cluster."""

from __future__ import annotations

import heapq
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from contrailmq.admin.doctor.findings import Chart, Finding, Severity
from contrailmq.admin.doctor.groups import examine_groups
from contrailmq.console.desk import Desk, first_number
from contrailmq.console.listing import OWN_KINDS, dead_letters
from contrailmq.console.web import Refused, answer, desk_of, session_of, text_of
from contrailmq.protocol.names import is_system_group

TOP: Final = 10
HITS_MAX: Final = 12
DOCTOR_GROUPS_MAX: Final = 300
SERIES: Final = ("in", "out", "lag", "latency")


async def overview(request: Request) -> Response:
    """Everything of the first page in one answer."""
    desk = desk_of(request)
    await desk.view.fresh()
    view = desk.view
    groups = [group for group in view.groups.values() if not is_system_group(group.name)]
    return answer(
        {
            "at": view.pulse_ms,
            "clusters": sorted({member.cluster for member in view.members}),
            "brokers": [member_row(desk, member) for member in view.members],
            "topics": sum(topic.kind not in OWN_KINDS for topic in view.topics.values()),
            "groups": len(groups),
            "findings": [finding_row(finding) for finding in desk.findings()],
            "faults": view.faults,
            "now": {name: desk.history.last(name) for name in SERIES},
            "busiest": _busiest(desk),
            "behind": _behind(desk),
            "dead": _dead(desk),
            "account": session_of(request).account,
        }
    )


async def history(request: Request) -> Response:
    """The points of series: ``/api/history?series=in,out,lag:orders``."""
    desk = desk_of(request)
    names = text_of(request, "series").split(",")[:8]
    return answer({name: desk.history.points(name) for name in names})


async def search(request: Request) -> Response:
    """Topics and groups whose name has the words; what begins with them comes first."""
    desk = desk_of(request)
    await desk.view.fresh()
    words = text_of(request, "q").lower().split()
    hits: list[tuple[int, int, str, str]] = []
    named: list[tuple[str, str, bool]] = [
        *(("topic", name, topic.kind in OWN_KINDS) for name, topic in desk.view.topics.items()),
        *(("group", name, is_system_group(name)) for name in desk.view.groups),
    ]
    for kind, name, is_own in named:
        low = name.lower()
        if words and all(word in low for word in words):
            rank = (0 if low == words[0] else 1 if low.startswith(words[0]) else 2) + 3 * is_own
            hits.append((rank, len(name), name, kind))
    best = heapq.nsmallest(HITS_MAX, hits)
    rows = [{"kind": kind, "name": name} for _, _, name, kind in best]
    return answer({"hits": rows, "total": len(hits)})


async def doctor(request: Request) -> Response:
    """The doctor's whole look, groups included; it takes seconds and asks connected clients."""
    desk = desk_of(request)
    await desk.view.fresh()
    if len(desk.view.groups) > DOCTOR_GROUPS_MAX:
        raise Refused(
            f"{len(desk.view.groups)} groups, at most {DOCTOR_GROUPS_MAX} are examined here; "
            "run contrail doctor in a terminal"
        )
    chart = Chart()
    await examine_groups(desk.admin, chart, watch_s=2.0)
    rows = [finding_row(f) for f in chart.findings if f.severity is not Severity.OK]
    return answer({"findings": rows})


def member_row(desk: Desk, member: Any) -> dict[str, Any]:
    """One broker process as lists show it."""
    runtime = member.runtime
    return {
        "cluster": member.cluster,
        "name": member.name,
        "id": member.number,
        "address": member.address,
        "role": "master" if member.is_master else "replica",
        "version": runtime.get("brokerVersionDesc", ""),
        "in": first_number(runtime.get("putTps")),
        "out": first_number(runtime.get("getTransferredTps")),
        "today": int(first_number(runtime.get("msgPutTotalTodayNow")))
        - int(first_number(runtime.get("msgPutTotalTodayMorning"))),
        "disk": first_number(runtime.get("commitLogDiskRatio")),
        "room": runtime.get("commitLogDirCapacity", ""),
        "latency": first_number(runtime.get("putLatency99")),
        "boot": int(first_number(runtime.get("bootTimestamp"))),
        "earliest": int(first_number(runtime.get("earliestMessageTimeStamp"))),
        "log": int(first_number(runtime.get("commitLogMaxOffset")))
        - int(first_number(runtime.get("commitLogMinOffset"))),
        "fault": member.fault,
        "trend": [value for _, value in desk.history.points(f"in:{member.address}")[-40:]],
    }


def finding_row(finding: Finding) -> dict[str, str]:
    """One finding of the doctor."""
    return {
        "check": finding.check,
        "severity": finding.severity.value,
        "text": finding.text,
        "cause": finding.cause,
        "fix": finding.fix,
    }


def _busiest(desk: Desk) -> list[dict[str, Any]]:
    rates = (
        (ends.rate, name)
        for name, ends in desk.view.ends.items()
        if ends.rate and name in desk.view.topics and desk.view.topics[name].kind not in OWN_KINDS
    )
    return [{"name": name, "rate": rate} for rate, name in heapq.nlargest(TOP, rates)]


def _behind(desk: Desk) -> list[dict[str, Any]]:
    lags = (
        (lag, group.name)
        for group in desk.view.groups.values()
        if (lag := desk.view.lag(group)) and not is_system_group(group.name)
    )
    return [
        {
            "name": name,
            "lag": lag,
            "stuck": desk.is_stuck(name),
            "trend": [value for _, value in desk.history.points(f"lag:{name}")[-40:]],
        }
        for lag, name in heapq.nlargest(TOP, lags)
    ]


def _dead(desk: Desk) -> list[dict[str, Any]]:
    counts = ((count, group) for group in desk.view.groups if (count := dead_letters(desk, group)))
    return [{"group": group, "count": count} for count, group in heapq.nlargest(TOP, counts)]
