"""mqadmin's commands about controllers and replica groups (5.x)."""

from __future__ import annotations

import argparse
import json
from typing import Any, Final, TextIO

from contrailmq.admin.client import AdminClient
from contrailmq.admin.mqadmin.command import AdminCommand, may, need, switch
from contrailmq.admin.names_calls import properties_text
from contrailmq.errors import UsageError
from contrailmq.protocol.bodies.stats import EpochEntryCache
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.headers.controller import (
    CleanBrokerDataRequest,
    ControllerMetadata,
    ElectMasterRequest,
    MasterInfo,
)
from contrailmq.settings import parse_properties


async def metadata(admin: AdminClient, address: str) -> ControllerMetadata:
    """Ask a controller which one leads."""
    answer = await admin.ask(address, RequestCode.CONTROLLER_GET_METADATA_INFO)
    return ControllerMetadata.from_fields(answer.fields)


async def leader_of(admin: AdminClient, addresses: str) -> str:
    """The controller that leads, asked of the first of ``a:1;b:2`` that is given."""
    first = addresses.replace(",", ";").split(";")[0].strip()
    return (await metadata(admin, first)).controller_leader_address or first


async def sync_states(admin: AdminClient, leader: str, names: list[str]) -> dict[str, Any]:
    """The groups as the controller has them, by the name of their brokers."""
    body = json.dumps(names).encode()
    answer = await admin.ask(leader, RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, body=body)
    found: dict[str, Any] = json.loads(bytes(answer.body) or b"{}").get("replicasInfoTable", {})
    return found


async def _names(admin: AdminClient, o: argparse.Namespace) -> list[str]:
    if o.brokerName is not None:
        return [o.brokerName]
    if o.clusterName is None:
        raise UsageError("give -b, the name of a broker, or -c, the name of a cluster")
    return [data.broker_name for data in await admin.brokers.members(o.clusterName)]


async def _metadata(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    found = await metadata(admin, o.controllerAddress)
    out.write(f"\n#ControllerGroup\t{found.group}\n")
    out.write(f"#ControllerLeaderId\t{found.controller_leader_id}\n")
    out.write(f"#ControllerLeaderAddress\t{found.controller_leader_address}\n")
    for peer in filter(None, (found.peers or "").split(";")):
        out.write(f"#Peer:\t{peer}\n")


async def _sync_states(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    leader = await leader_of(admin, o.controllerAddress)
    for name, group in (await sync_states(admin, leader, await _names(admin, o))).items():
        in_sync, others = group["inSyncReplicas"], group["notInSyncReplicas"]
        out.write(f"\n#brokerName\t{name}\n#MasterBrokerId\t{group['masterBrokerId']}\n")
        out.write(f"#MasterAddr\t{group['masterAddress']}\n#MasterEpoch\t{group['masterEpoch']}\n")
        out.write(f"#SyncStateSetEpoch\t{group['syncStateSetEpoch']}\n")
        out.write(f"#SyncStateSetNums\t{len(in_sync)}\n")
        for kind, rows in (("InSyncReplica", in_sync), ("NotInSyncReplica", others)):
            for row in rows:
                out.write(
                    f"\n{kind}:\tReplicaIdentity{{brokerName='{name}', brokerId={row['brokerId']}, "
                    f"brokerAddress='{row['brokerAddress']}', alive={str(row['alive']).lower()}}}\n"
                )


async def _config(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    for address in o.controllerAddress.split(";"):
        answer = await admin.ask(address, RequestCode.GET_CONTROLLER_CONFIG)
        out.write(f"============{address}============\n")
        for key, value in parse_properties(bytes(answer.body).decode()).items():
            out.write(f"{key:<50}=  {value}\n")


async def _update_config(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    body = properties_text({o.key: o.value})
    for address in o.controllerAddress.split(";"):
        await admin.ask(address, RequestCode.UPDATE_CONTROLLER_CONFIG, body=body)
    out.write(f"update controller config success![{o.controllerAddress.replace(';', ', ')}]\n")
    out.write(f"{o.key} : {o.value}\n")


async def _elect(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    header = ElectMasterRequest(
        cluster_name=o.clusterName,
        broker_name=o.brokerName,
        broker_id=int(o.brokerId),
        designate_elect=True,
        invoke_time=admin.world.clock.now_ms(),
    )
    leader = await leader_of(admin, o.controllerAddress)
    answer = await admin.ask(leader, RequestCode.CONTROLLER_ELECT_MASTER, header)
    found = MasterInfo.from_fields(answer.fields)
    out.write(f"\n#ClusterName\t{o.clusterName}\n#BrokerName\t{o.brokerName}\n")
    out.write(f"#BrokerMasterAddr\t{found.master_address}\n#MasterEpoch\t{found.master_epoch}\n")
    out.write(f"#SyncStateSetEpoch\t{found.sync_state_set_epoch}\n")


async def _clean(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    header = CleanBrokerDataRequest(
        cluster_name=o.clusterName,
        broker_name=o.brokerName,
        broker_controller_ids_to_clean=o.brokerControllerIdsToClean,
        is_clean_living_broker=o.cleanLivingBroker,
        invoke_time=admin.world.clock.now_ms(),
    )
    leader = await leader_of(admin, o.controllerAddress)
    await admin.ask(leader, RequestCode.CLEAN_BROKER_DATA, header)
    out.write(f"clear broker {o.brokerName} metadata from controller success! \n")


async def _epochs(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    names = await _names(admin, o)
    for data in await admin.brokers.members(o.clusterName):
        if data.broker_name not in names:
            continue
        for _, address in sorted(data.broker_addrs.items(), reverse=True):
            answer = await admin.ask(address, RequestCode.GET_BROKER_EPOCH_CACHE)
            found = EpochEntryCache.decode(answer.body)
            out.write(f"\n#clusterName\t{found.cluster_name}\n#brokerName\t{found.broker_name}\n")
            out.write(f"#brokerAddr\t{address}\n#brokerId\t{found.broker_id}\n")
            for place, entry in enumerate(found.epoch_list):
                is_last = place == len(found.epoch_list) - 1
                end = found.max_offset if is_last else entry.end_offset
                out.write(
                    f"#Epoch: EpochEntry{{epoch={entry.epoch}, startOffset={entry.start_offset}, "
                    f"endOffset={end}}}\n"
                )


_ADDRESS: Final = need("a", "controllerAddress", "host:port of a controller, several with ;")
_BROKER: Final = may("b", "brokerName", "broker name")
_CLUSTER: Final = may("c", "clusterName", "cluster name")
COMMANDS: Final = {
    "getControllerMetaData": AdminCommand(
        "Get controller cluster's metadata", (_ADDRESS,), _metadata
    ),
    "getSyncStateSet": AdminCommand(
        "Fetch syncStateSet for target brokers", (_ADDRESS, _BROKER, _CLUSTER), _sync_states
    ),
    "getControllerConfig": AdminCommand("Get controller config.", (_ADDRESS,), _config),
    "updateControllerConfig": AdminCommand(
        "Update controller config.",
        (_ADDRESS, need("k", "key", "config key"), need("v", "value", "config value")),
        _update_config,
    ),
    "electMaster": AdminCommand(
        "Re-elect the specified broker as master",
        (_ADDRESS, need("b", "brokerId", "the id of the broker"),
         need("bn", "brokerName", "broker name"), need("c", "clusterName", "cluster name")),
        _elect,
    ),
    "cleanBrokerMetadata": AdminCommand(
        "Clean metadata of broker on controller",
        (_ADDRESS, need("bn", "brokerName", "broker name"), may("c", "clusterName", "cluster"),
         may("b", "brokerControllerIdsToClean", "ids, 1;2; without: all"),
         switch("l", "cleanLivingBroker", "living ones too")),
        _clean,
    ),
    "getBrokerEpoch": AdminCommand(
        "Fetch broker epoch entries", (_BROKER, _CLUSTER), _epochs
    ),
}  # fmt: skip
