"""mqadmin's commands about clusters, brokers and name servers."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable
from typing import Final, TextIO

from contrailmq.admin.broker_calls import BrokerCalls
from contrailmq.admin.client import AdminClient
from contrailmq.admin.mqadmin.command import (
    AdminCommand,
    all_or,
    integer,
    may,
    need,
    switch,
    targets,
)
from contrailmq.client.message import Message
from contrailmq.client.producer.producer import Producer
from contrailmq.clock import SystemClock
from contrailmq.errors import ClientError, ContrailError
from contrailmq.protocol.queue import MessageQueue

_ROW: Final = "{:<16}  {:<22}  {:<4}  {:<22} {:<16} {:>19} {:>19} {:>10} {:>5} {:>6}\n"
_MORE: Final = "{:<16}  {:<32} {:>14} {:>14} {:>14} {:>14}\n"
_BROKER: Final = may("b", "brokerAddr", "broker address")
_CLUSTER: Final = may("c", "clusterName", "cluster name")


async def _clusters(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    if o.moreStats:
        heads = ("#InTotalYest", "#OutTotalYest", "#InTotalToday", "#OutTotalToday")
        out.write(_MORE.format("#Cluster Name", "#Broker Name", *heads))
    else:
        out.write(
            _ROW.format("#Cluster Name", "#Broker Name", "#BID", "#Addr", "#Version",
                        "#InTPS(LOAD)", "#OutTPS(LOAD)", "#PCWait(ms)", "#Hour", "#SPACE")
        )  # fmt: skip
    now_ms = admin.world.clock.now_ms()
    for data in await admin.brokers.members(o.clusterName):
        for number, address in sorted(data.broker_addrs.items()):
            try:
                table = await admin.brokers.runtime(address)
            except ContrailError:
                table = {}
            write = _more if o.moreStats else _line
            out.write(write(table, (data.cluster, data.broker_name, number, address), now_ms))


def _more(t: dict[str, str], place: tuple[str, str, int, str], now_ms: int) -> str:
    def total(name: str) -> int:
        return int(t.get(name) or 0)

    put, got = "msgPutTotal", "msgGetTotal"
    return _MORE.format(
        place[0], place[1],
        total(f"{put}TodayMorning") - total(f"{put}YesterdayMorning"),
        total(f"{got}TodayMorning") - total(f"{got}YesterdayMorning"),
        total(f"{put}TodayNow") - total(f"{put}TodayMorning"),
        total(f"{got}TodayNow") - total(f"{got}TodayMorning"),
    )  # fmt: skip


def _line(t: dict[str, str], place: tuple[str, str, int, str], now_ms: int) -> str:
    def load(tps: str, pool: str) -> str:
        rate = float((t.get(tps) or "0").split()[0])
        size, wait = t.get(f"{pool}Size", "0"), t.get(f"{pool}HeadWaitTimeMills", "0")
        return f"{rate:.2f}({size},{wait}ms)"

    out_tps = "getTransferredTps" if "getTransferredTps" in t else "getTransferedTps"
    oldest = int(t.get("earliestMessageTimeStamp") or 0)
    hours = f"{(now_ms - oldest) / 3_600_000:.2f}" if oldest > 0 else "0.00"
    space = float(t.get("commitLogDiskRatio") or 0)
    return _ROW.format(
        *place, t.get("brokerVersionDesc", ""), load("putTps", "sendThreadPoolQueue"),
        load(out_tps, "pullThreadPoolQueue"), t.get("pageCacheLockTimeMills", ""), hours,
        f"{space:.4f}",
    )  # fmt: skip


async def _status(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    for address in await targets(admin, o):
        before = f"{address:<24} " if o.brokerAddr is None else ""
        for name, value in sorted((await admin.brokers.runtime(address)).items()):
            out.write(f"{before}{name:<32}: {value}\n")


async def _config(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    for address in await targets(admin, o):
        out.write(f"============{address}============\n")
        for name, value in sorted((await admin.brokers.config(address)).items()):
            out.write(f"{name:<50}=  {value}\n")


async def _update_config(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    for address in await targets(admin, o):
        await admin.brokers.update_config(address, {o.key: o.value})
        out.write(f"update broker config success, {address}\n")


def _maintenance(
    act: Callable[[BrokerCalls, str], Awaitable[None]],
) -> Callable[[AdminClient, argparse.Namespace, TextIO], Awaitable[None]]:
    async def run(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
        for address in await all_or(admin, o):
            await act(admin.brokers, address)
        out.write("success\n")

    return run


async def _ha(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    for address in await targets(admin, o):
        found = await admin.brokers.ha_status(address)
        if not found.master:
            client = found.ha_client_runtime_info
            out.write(f"\n#MasterAddr\t{client.master_addr if client else None}\n")
            continue
        out.write(f"\n#MasterAddr\t{address}\n")
        out.write(f"#MasterCommitLogMaxOffset\t{found.master_commit_log_max_offset}\n")
        out.write(f"#SlaveNum\t{len(found.ha_connection_info)}\n")
        out.write(f"#InSyncSlaveNum\t{found.in_sync_slave_nums}\n")
        for slave in found.ha_connection_info:
            out.write(f"{slave.addr}\t{slave.slave_ack_offset}\t{slave.diff}\t{slave.in_sync}\n")


async def _send_status(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    now = SystemClock().precise_s
    queue = MessageQueue(o.brokerName, o.brokerName, 0)
    async with Producer(
        "PID_SMSG", name_servers=admin.name_servers.addresses, client=admin.settings
    ) as producer:
        await producer.send(Message(o.brokerName, b"a" * 16), queue=queue)
        for _ in range(int(o.count)):
            began = now()
            receipt = await producer.send(
                Message(o.brokerName, b"a" * int(o.messageSize)), queue=queue
            )
            out.write(
                f"rt={(now() - began) * 1000:.0f}ms, SendResult=SendResult "
                f"[sendStatus={receipt.status.value}, msgId={receipt.message_id}, "
                f"offsetMsgId={receipt.offset_message_id}, messageQueue={receipt.queue}, "
                f"queueOffset={receipt.offset}]\n"
            )


async def _cluster_rt(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    row = "{:<24}  {:<24}  {:<4}  {:<8}  {:<8}\n"
    out.write(row.format("#Cluster Name", "#Broker Name", "#RT", "#successCount", "#failCount"))
    now = SystemClock().precise_s
    async with Producer(
        "mqadmin-cluster-rt", name_servers=admin.name_servers.addresses, client=admin.settings
    ) as producer:
        for data in await admin.brokers.members(o.clusterName):
            queue = MessageQueue(data.broker_name, data.broker_name, 0)
            good = bad = 0
            spent = 0.0
            for _ in range(int(o.amount)):
                began = now()
                try:
                    await producer.send(Message(data.broker_name, b"a" * int(o.size)), queue=queue)
                    good += 1
                    spent += now() - began
                except ContrailError:
                    bad += 1
            average = f"{spent * 1000 / good:.2f}" if good else "-"
            out.write(row.format(data.cluster, data.broker_name, average, good, bad))


async def _producers(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    for group, members in sorted((await admin.groups.producers(o.broker)).items()):
        if not members:
            out.write(f"producer group ({group}) instances are empty\n")
        for one in sorted(members, key=lambda one: one.client_id):
            out.write(
                f"producer group ({group}) instance : clientId={one.client_id},"
                f"remoteIP={one.remote_ip}, language={one.language}, version={one.version}, "
                f"lastUpdateTimestamp={one.last_update_timestamp}\n"
            )


async def _wipe(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    for address, count in (await admin.names.wipe_write_permission(o.brokerName)).items():
        out.write(
            f"wipe write perm of broker[{o.brokerName}] in name server[{address}] OK, {count}\n"
        )


async def _add(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    for address, count in (await admin.names.add_write_permission(o.brokerName)).items():
        out.write(
            f"add write perm of broker[{o.brokerName}] in name server[{address}] OK, {count}\n"
        )


async def _names_config(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    for address, table in (await admin.names.config()).items():
        out.write(f"============{address}============\n")
        for name, value in sorted(table.items()):
            out.write(f"{name:<50}=  {value}\n")


async def _update_names(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    await admin.names.update_config({o.key: o.value})
    servers = ", ".join(admin.name_servers.addresses)
    out.write(f"update name server config success!{servers}\n{o.key} : {o.value}\n")


async def _kv_put(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    await admin.names.kv_put(o.namespace, o.key, o.value)
    out.write("create or update kv config to namespace success.\n")


async def _kv_delete(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    await admin.names.kv_delete(o.namespace, o.key)
    out.write("delete kv config from namespace success.\n")


async def _resume(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    record = await admin.messages.view(o.msgId)
    topic = o.topic or record.properties.get("REAL_TOPIC")
    if topic is None:
        raise ClientError(f"{o.msgId} is not a half message; give its topic with -t")
    await admin.brokers.resume_half_message(record.store_host, topic, o.msgId)
    out.write("success\n")


_KEY: Final = need("k", "key", "config key")
_VALUE: Final = need("v", "value", "config value")
_NAME: Final = need("b", "brokerName", "broker name")
COMMANDS: Final = {
    "clusterList": AdminCommand(
        "List cluster infos",
        (switch("m", "moreStats", "print more stats"), may("c", "clusterName", "cluster name")),
        _clusters,
    ),
    "brokerStatus": AdminCommand("Fetch broker runtime status data", (_BROKER, _CLUSTER), _status),
    "getBrokerConfig": AdminCommand("Get broker config by cluster", (_BROKER, _CLUSTER), _config),
    "updateBrokerConfig": AdminCommand(
        "Update broker's config", (_BROKER, _CLUSTER, _KEY, _VALUE), _update_config
    ),
    "cleanExpiredCQ": AdminCommand(
        "Clean expired ConsumeQueue on broker.", (_BROKER, _CLUSTER),
        _maintenance(BrokerCalls.clean_expired_queues),
    ),
    "deleteExpiredCommitLog": AdminCommand(
        "Delete expired CommitLog files", (_BROKER, _CLUSTER),
        _maintenance(BrokerCalls.delete_expired_log),
    ),
    "cleanUnusedTopic": AdminCommand(
        "Clean unused topic on broker.", (_BROKER, _CLUSTER),
        _maintenance(BrokerCalls.clean_unused_topics),
    ),
    "haStatus": AdminCommand("Fetch ha runtime status data", (_BROKER, _CLUSTER), _ha),
    "sendMsgStatus": AdminCommand(
        "Send msg to broker.",
        (_NAME, integer(may("s", "messageSize", "bytes", "128")),
         integer(may("c", "count", "how many", "50"))),
        _send_status,
    ),
    "clusterRT": AdminCommand(
        "List All clusters Message Send RT",
        (integer(may("a", "amount", "message amount", "100")),
         integer(may("s", "size", "bytes", "128")),
         may("c", "clusterName", "cluster name")),
        _cluster_rt,
    ),
    "producer": AdminCommand(
        "Query producer's instances, connection, status, etc.",
        (need("b", "broker", "broker address"),), _producers,
    ),
    "wipeWritePerm": AdminCommand("Wipe write perm of broker in all name server", (_NAME,), _wipe),
    "addWritePerm": AdminCommand("Add write perm of broker in all name server", (_NAME,), _add),
    "getNamesrvConfig": AdminCommand("Get configs of name server.", (), _names_config),
    "updateNamesrvConfig": AdminCommand(
        "Update configs of name server.", (_KEY, _VALUE), _update_names
    ),
    "updateKvConfig": AdminCommand(
        "Create or update KV config.",
        (need("s", "namespace", "namespace"), _KEY, _VALUE), _kv_put,
    ),
    "deleteKvConfig": AdminCommand(
        "Delete KV config.", (need("s", "namespace", "namespace"), _KEY), _kv_delete
    ),
    "resumeCheckHalfMessage": AdminCommand(
        "Resume half message check",
        (need("i", "msgId", "the half message's offset id"), may("t", "topic", "topic")), _resume,
    ),
}  # fmt: skip
