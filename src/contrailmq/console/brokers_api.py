"""Brokers: what they do, their settings with documentation, store, replication, accounts."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from contrailmq.admin.doctor.cluster import free_size
from contrailmq.console.desk import Desk, first_number
from contrailmq.console.listing import OWN_KINDS
from contrailmq.console.overview_api import member_row
from contrailmq.console.web import Refused, answer, desk_of, text_of
from contrailmq.errors import BrokerError, CodeNotSupported, ContrailError
from contrailmq.settings import explained, is_guarded, live_keys

TOPICS_SHOWN: Final = 20
CLIENTS_MAX: Final = 1000


async def brokers(request: Request) -> Response:
    """Every broker process."""
    desk = desk_of(request)
    await desk.view.fresh()
    return answer(
        {
            "rows": [member_row(desk, member) for member in desk.view.members],
            "at": desk.view.pulse_ms,
            "name_servers": list(desk.admin.name_servers.addresses),
        }
    )


async def broker(request: Request) -> Response:
    """One broker: its runtime table, and the producers connected to it."""
    desk = desk_of(request)
    member = await _member(desk, request)
    try:
        table = await desk.admin.groups.producers(member.address)
    except (CodeNotSupported, BrokerError):  # 4.9 has no list of all
        table = None
    producers = [
        {"group": group, "id": client.client_id, "language": client.language,
         "address": client.remote_ip, "seen": client.last_update_timestamp}
        for group, clients in sorted((table or {}).items())
        for client in clients
    ]  # fmt: skip
    return answer(
        {
            **member_row(desk, member),
            "runtime": dict(sorted(member.runtime.items())),
            "producers": producers[:CLIENTS_MAX],
            "lists_producers": table is not None,
            "series": {
                name: desk.history.points(f"{name}:{member.address}") for name in ("in", "out")
            },
        }
    )


async def settings(request: Request) -> Response:
    """All settings of a broker, what they mean, and which can change while it runs."""
    desk = desk_of(request)
    member = await _member(desk, request)
    values = await desk.admin.brokers.config(member.address)
    docs, live = key_docs()
    rows = [
        {
            "key": name,
            "value": value,
            "doc": docs.get(name, ""),
            "live": name in live and not is_guarded(name),
        }
        for name, value in sorted(values.items())
    ]
    return answer({"broker": member.name, "address": member.address, "rows": rows})


async def store(request: Request) -> Response:
    """For each master its log, its files, its disk, and the topics with most messages."""
    desk = desk_of(request)
    await desk.view.fresh()
    names = [name for name, topic in desk.view.topics.items() if topic.kind not in OWN_KINDS]
    await desk.view.know_ends(names[:200], age_s=30.0)
    rows: list[dict[str, Any]] = []
    for member in desk.view.members:
        runtime = member.runtime
        low = int(first_number(runtime.get("commitLogMinOffset")))
        high = int(first_number(runtime.get("commitLogMaxOffset")))
        try:
            config = await desk.admin.brokers.config(member.address)
        except ContrailError as error:
            rows.append({"broker": member.name, "address": member.address, "fault": str(error)})
            continue
        size = int(config.get("mappedFileSizeCommitLog") or 1 << 30)
        segments = [
            {"name": f"{start:020d}", "begin": max(start, low), "end": min(start + size, high)}
            for start in range(low - low % size, max(high, low + 1), size)
        ]
        rows.append(
            {
                "broker": member.name,
                "address": member.address,
                "root": config.get("storePathRootDir", ""),
                "low": low,
                "high": high,
                "segmentSize": size,
                "segments": segments[-40:],
                "count": len(segments),
                "ratio": first_number(runtime.get("commitLogDiskRatio")),
                "free": free_size(runtime.get("commitLogDirCapacity", "")),
                "earliest": int(first_number(runtime.get("earliestMessageTimeStamp"))),
                "behind": int(first_number(runtime.get("dispatchBehindBytes"))),
                "flush": runtime.get("remainHowManyDataToFlush", ""),
                "keepHours": config.get("fileReservedTime", ""),
                "deleteWhen": config.get("deleteWhen", ""),
                "flushType": config.get("flushDiskType", ""),
                "average": first_number(runtime.get("putMessageAverageSize")),
                "fault": "",
            }
        )
    largest = sorted(((ends.count, name) for name, ends in desk.view.ends.items()), reverse=True)[
        :TOPICS_SHOWN
    ]
    shares = [{"topic": name, "messages": count} for count, name in largest if count]
    return answer({"rows": rows, "topics": shares})


async def replication(request: Request) -> Response:
    """For each broker name who follows whom, how far, and who is in sync."""
    desk = desk_of(request)
    await desk.view.fresh()
    rows = []
    for member in desk.view.members:
        row: dict[str, Any] = {
            "cluster": member.cluster, "name": member.name, "id": member.number,
            "address": member.address, "role": "master" if member.is_master else "replica",
            "end": int(first_number(member.runtime.get("commitLogMaxOffset"))),
            "boot": int(first_number(member.runtime.get("bootTimestamp"))),
            "fault": member.fault, "replicas": [], "told": False,
        }  # fmt: skip
        try:
            state = await desk.admin.brokers.ha_status(member.address)
        except ContrailError as error:
            row["note"] = str(error)
        else:
            row["told"] = True
            row["in_sync"] = state.in_sync_slave_nums
            row["replicas"] = [
                {"address": one.addr, "in_sync": one.in_sync, "acked": one.slave_ack_offset,
                 "behind": one.diff, "speed": one.transferred_byte_in_second}
                for one in state.ha_connection_info
            ]  # fmt: skip
            follows = state.ha_client_runtime_info
            if not member.is_master and follows is not None:
                row["follows"] = {"master": follows.master_addr or "", "at": follows.max_offset,
                                  "master_end": follows.master_flush_offset,
                                  "read": follows.last_read_timestamp}  # fmt: skip
        rows.append(row)
    return answer({"rows": rows})


async def accounts(request: Request) -> Response:
    """The accounts of each master, without secrets; why there are none where there are none."""
    desk = desk_of(request)
    await desk.view.fresh()
    rows = []
    for name, address in desk.view.masters.items():
        row: dict[str, Any] = {"broker": name, "address": address, "accounts": [], "fault": ""}
        try:
            config = await desk.admin.brokers.config(address)
            row["enabled"] = config.get("aclEnable") == "true"
            if row["enabled"]:
                found = await desk.admin.accounts.all(address)
                row["white"] = found.global_white_addrs
                row["accounts"] = [
                    {"name": one.access_key or "", "admin": one.admin,
                     "topics": one.topic_perms or [], "groups": one.group_perms or [],
                     "topicDefault": one.default_topic_perm or "",
                     "groupDefault": one.default_group_perm or "",
                     "address": one.white_remote_address or ""}
                    for one in found.plain_access_configs
                ]  # fmt: skip
        except ContrailError as error:
            row["fault"] = str(error)
        rows.append(row)
    return answer({"rows": rows})


@cache
def key_docs() -> tuple[dict[str, str], frozenset[str]]:
    """What each key of a broker means, and those that our brokers take while they run."""
    from contrailmq.broker.config.file import COMPONENTS

    docs: dict[str, str] = {}
    live: set[str] = set()
    for component in COMPONENTS:
        docs.update(explained(component))
        live |= live_keys(component)
    return docs, frozenset(live)


async def _member(desk: Desk, request: Request) -> Any:
    """The broker that a query names by address, or the first; no other address is ever dialled."""
    await desk.view.fresh()
    wanted = text_of(request, "address")
    for member in desk.view.members:
        if wanted in ("", member.address):
            return member
    raise Refused(f"no broker is registered at {wanted[:80]!r}", 404)
