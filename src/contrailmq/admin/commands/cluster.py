"""``contrail cluster``: every broker, what it is and what it does."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, Final, TextIO

from contrailmq.admin.broker_calls import shown_version
from contrailmq.admin.client import AdminClient
from contrailmq.admin.doctor.replicas import replica_states
from contrailmq.admin.options import json_option, new_parser, with_admin
from contrailmq.admin.output import Printer, span
from contrailmq.errors import BrokerError, NetworkError
from contrailmq.protocol.bodies.route import BrokerData

_EPILOG: Final = """\
examples:
  contrail cluster
  contrail cluster --json | jq .address
  watch -n 2 contrail cluster
"""
_HEAD: Final = (
    "cluster", "broker", "id", "address", "role", "sync", "version", "inTps", "outTps",
    "messagesIn", "messagesOut", "disk", "up",
)  # fmt: skip


def main(argv: Sequence[str], out: TextIO | None = None) -> int:
    """Run one command line."""
    options = parser().parse_args(argv)
    printer = Printer(out, as_json=options.json)
    return with_admin(options, lambda admin: _show(admin, options, printer))


async def _show(admin: AdminClient, options: argparse.Namespace, printer: Printer) -> int:
    brokers = await admin.brokers.members(options.cluster)
    rows = []
    for data in sorted(brokers, key=lambda one: (one.cluster, one.broker_name)):
        states = await replica_states(admin, data)
        for number, address in sorted(data.broker_addrs.items()):
            row = await _row(admin, data, number)
            row["role"], row["sync"] = states[address].role, states[address].text or None
            rows.append(row)
    printer.rows(rows, _HEAD)
    dead = [row for row in rows if row.get("error")]
    for row in dead:
        printer.say(f"{row['address']}: {row['error']}")
    if not rows:
        printer.say("the name server knows no broker; contrail doctor says what is wrong")
    return 1 if dead or not rows else 0


async def _row(admin: AdminClient, data: BrokerData, number: int) -> dict[str, Any]:
    address = data.broker_addrs[number]
    row: dict[str, Any] = {
        "cluster": data.cluster,
        "broker": data.broker_name,
        "id": number,
        "address": address,
    }
    try:
        table = await admin.brokers.runtime(address)
    except (BrokerError, NetworkError) as error:
        return {**row, "version": "no answer", "error": str(error)}
    return {**row, **figures(table, now_ms=admin.world.clock.now_ms())}


def figures(table: Mapping[str, str], *, now_ms: int) -> dict[str, Any]:
    """What of a broker's runtime table is worth a column; the last three are for programs."""
    boot_ms = int(table.get("bootTimestamp") or 0)
    ratio = table.get("commitLogDiskRatio")
    return {
        "version": shown_version(table),
        "inTps": _first(table.get("putTps")),
        "outTps": _first(table.get("getTransferredTps") or table.get("getTransferedTps")),
        "messagesIn": int(table.get("msgPutTotalTodayNow") or 0),
        "messagesOut": int(table.get("msgGetTotalTodayNow") or 0),
        "disk": f"{float(ratio):.0%}" if ratio else None,
        "up": span(max(now_ms - boot_ms, 0) / 1000) if boot_ms else None,
        "diskRatio": float(ratio) if ratio else None,
        "startTime": boot_ms or None,
        "speaks": table.get("brokerVersionDesc"),
    }


def _first(rates: str | None) -> float | None:
    """The rate of the last ten seconds, the first of three."""
    return round(float(rates.split()[0]), 1) if rates and rates.strip() else None


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    top = new_parser("cluster", "Show brokers and their state.", _EPILOG, connects=True)
    top.add_argument("-c", "--cluster", help="of this cluster only")
    json_option(top)
    return top
