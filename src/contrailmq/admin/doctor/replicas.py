"""Replica groups: who is in sync, and why one is not."""

from __future__ import annotations

from typing import Any, NamedTuple

from contrailmq.admin.client import AdminClient
from contrailmq.admin.doctor.findings import Chart, Severity
from contrailmq.admin.mqadmin.controllers import leader_of, sync_states
from contrailmq.errors import ContrailError
from contrailmq.protocol.bodies.route import BrokerData, ClusterInfo
from contrailmq.protocol.names import MASTER_ID


class ReplicaState(NamedTuple):
    """One broker of a group."""

    role: str  # primary, replica
    text: str  # how it stands to the others; empty for a broker alone
    is_well: bool
    fix: str = ""


async def replica_states(admin: AdminClient, data: BrokerData) -> dict[str, ReplicaState]:
    """The members of one group, by address; what cannot be asked is said."""
    primary = data.broker_addrs.get(MASTER_ID)
    members = await _set_of(admin, data)
    found: dict[str, ReplicaState] = {}
    end: int | None = None
    if primary is not None:
        found[primary], end = await _primary(admin, primary, data=data, members=members)
    for number, address in sorted(data.broker_addrs.items()):
        if number != MASTER_ID:
            found[address] = await _replica(
                admin, address, primary=primary, end=end, members=members
            )
    return found


async def examine_replicas(admin: AdminClient, chart: Chart, info: ClusterInfo) -> None:
    """Say of every group which members are not in sync, and why."""
    for name, data in sorted(info.broker_addr_table.items()):
        for address, state in (await replica_states(admin, data)).items():
            if not state.text:
                continue
            if state.is_well:
                chart.ok("replica", f"{name} {address}: {state.role}, {state.text}")
            else:
                chart.add(
                    Severity.WARNING, "replica", f"{name} {address}: {state.role}, {state.text}",
                    cause="an acknowledged message may be on one machine only",
                    fix=state.fix,
                )  # fmt: skip


async def _set_of(admin: AdminClient, data: BrokerData) -> dict[str, Any] | None:
    """The group as its controller has it; None without a controller, or if it says nothing."""
    for address in data.broker_addrs.values():
        try:
            config = await admin.brokers.config(address)
            if config.get("enableControllerMode") != "true":
                return None
            leader = await leader_of(admin, config.get("controllerAddr", ""))
            states = await sync_states(admin, leader, [data.broker_name])
        except ContrailError:
            continue
        found: dict[str, Any] | None = states.get(data.broker_name)
        return found
    return None


async def _primary(
    admin: AdminClient, address: str, *, data: BrokerData, members: dict[str, Any] | None
) -> tuple[ReplicaState, int | None]:
    try:
        status = await admin.brokers.ha_status(address)
    except ContrailError as error:  # 4.9 has no such request
        is_alone = len(data.broker_addrs) == 1
        text = "" if is_alone else f"does not tell who follows it: {error}"
        return ReplicaState("primary", text, is_well=True), None
    end = status.master_commit_log_max_offset
    if members is not None:
        count = len(members["inSyncReplicas"]) - 1
        total = count + len(members["notInSyncReplicas"])
    else:
        count, total = status.in_sync_slave_nums, max(
            len(status.ha_connection_info), len(data.broker_addrs) - 1
        )  # fmt: skip
    if not total:
        return ReplicaState("primary", "", is_well=True), end
    text = f"{count} of {total} replicas in sync"
    away = [
        f"{row['brokerAddress']} is {'alive' if row['alive'] else 'gone'}"
        for row in (members or {}).get("notInSyncReplicas", [])
        if row["brokerAddress"] not in data.broker_addrs.values()
    ]
    if away:
        text += f" ({', '.join(away)})"
    fix = "start the replicas again; contrail cluster shows each of them"
    return ReplicaState("primary", text, is_well=count == total, fix=fix), end


async def _replica(
    admin: AdminClient,
    address: str,
    *,
    primary: str | None,
    end: int | None,
    members: dict[str, Any] | None,
) -> ReplicaState:
    if primary is None:
        fix = "start the primary again; with a controller: is one running, and was a member in sync"
        return ReplicaState("replica", "there is no primary", is_well=False, fix=fix)
    try:
        client = (await admin.brokers.ha_status(address)).ha_client_runtime_info
    except ContrailError as error:
        return ReplicaState("replica", f"does not tell how far it is: {error}", is_well=True)
    if client is None or not client.last_read_timestamp:
        where = (client.master_addr if client is not None else None) or "its primary"
        fix = f"open the way from it to {where}; its log says why it is not connected"
        return ReplicaState("replica", f"not connected to {where}", is_well=False, fix=fix)
    behind = 0 if end is None else end - client.max_offset
    if members is not None:
        in_set = any(row["brokerAddress"] == address for row in members["inSyncReplicas"])
        if not in_set:
            text = f"not in the in-sync set, {max(behind, 0):,} bytes behind"
            fix = "wait until it has caught up; a learner (asyncLearner) never joins the set"
            return ReplicaState("replica", text, is_well=False, fix=fix)
    elif behind > 0:
        text = f"{behind:,} bytes behind"
        fix = "look again: it catches up, or its disk or the way to it is slower than the load"
        return ReplicaState("replica", text, is_well=behind < 1 << 20, fix=fix)
    return ReplicaState("replica", "in sync", is_well=True)
