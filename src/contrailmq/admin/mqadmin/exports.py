"""mqadmin's commands that write what they find to a file: JSON as fastjson writes it.

The files have the names and the fields of 4.9.7's; where their order is that of a hash table, ours
is sorted.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TextIO

from contrailmq.admin.client import AdminClient
from contrailmq.admin.mqadmin.command import AdminCommand, may, need, switch
from contrailmq.errors import BrokerError, ContrailError, UsageError
from contrailmq.protocol.bodies.group import SubscriptionGroupConfig, SubscriptionGroupWrapper
from contrailmq.protocol.bodies.stats import BrokerStatsData
from contrailmq.protocol.bodies.topic import TopicConfig, TopicConfigWrapper
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.fastjson import dumps
from contrailmq.protocol.names import HALF_TOPIC, SCHEDULE_TOPIC, is_retry_or_dlq, is_system_group
from contrailmq.protocol.versions import CURRENT_VERSION, version_name

FOLDER: Final = "/tmp/rocketmq/export"
_CONFIGS: Final = (
    "autoCreateSubscriptionGroup", "autoCreateTopicEnable", "brokerClusterName", "brokerId",
    "brokerName", "brokerRole", "fileReservedTime", "filterServerNums", "flushDiskType",
    "maxMessageSize", "messageDelayLevel", "msgTraceTopicName", "slaveReadEnable", "traceOn",
    "traceTopicEnable", "useTLS",
)  # fmt: skip


def _write(o: argparse.Namespace, name: str, value: Any, out: TextIO) -> None:
    path = Path(o.filePath) / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(dumps(value, pretty=True, legacy=True))
    out.write(f"export {path} success\n")


async def _topics(admin: AdminClient, address: str, *, special: bool) -> TopicConfigWrapper:
    """The topics of a broker that are its users'."""
    answer = await admin.ask(address, RequestCode.GET_ALL_TOPIC_CONFIG)
    found = TopicConfigWrapper.decode(answer.body)
    own = set(await admin.topics.system_at(address))
    table = {
        topic: config
        for topic, config in sorted(found.topic_config_table.items())
        if topic not in own and (special or not is_retry_or_dlq(topic))
    }
    return TopicConfigWrapper(data_version=found.data_version, topic_config_table=table)


async def _groups(admin: AdminClient, address: str) -> SubscriptionGroupWrapper:
    """The groups of a broker that are its users'."""
    answer = await admin.ask(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    found = SubscriptionGroupWrapper.decode(answer.body)
    table = {
        group: config
        for group, config in sorted(found.subscription_group_table.items())
        if not is_system_group(group)
    }
    return SubscriptionGroupWrapper(data_version=found.data_version, subscription_group_table=table)


async def _metadata(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    if o.brokerAddr is not None:
        if o.topic:
            _write(o, "topic", await _topics(admin, o.brokerAddr, special=o.specialTopic), out)
        elif o.subscriptionGroup:
            _write(o, "subscriptionGroup", await _groups(admin, o.brokerAddr), out)
        else:
            raise UsageError("with -b give -t, its topics, or -g, its groups")
        return
    if o.clusterName is None:
        raise UsageError("give -c, the name of a cluster, or -b, the address of a broker")
    topics: dict[str, TopicConfig] = {}
    groups: dict[str, SubscriptionGroupConfig] = {}
    for address in (await admin.masters(o.clusterName)).values():
        wrapper = await _topics(admin, address, special=o.specialTopic)
        for topic, config in wrapper.topic_config_table.items():
            if topic in topics:
                config.write_queue_nums += topics[topic].write_queue_nums
                config.read_queue_nums += topics[topic].read_queue_nums
            topics[topic] = config
        for group, settings in (await _groups(admin, address)).subscription_group_table.items():
            if group in groups:
                settings.retry_queue_nums += groups[group].retry_queue_nums
            groups[group] = settings
    found: dict[str, Any] = {"exportTime": admin.world.clock.now_ms()}
    if not o.topic:
        found["subscriptionGroupTable"] = groups
    if o.topic or not o.subscriptionGroup:
        found["topicConfigTable"] = topics
    name = "topic" if o.topic else "subscriptionGroup" if o.subscriptionGroup else "metadata"
    _write(o, name, found, out)


async def _configs(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    brokers = await admin.brokers.members(o.clusterName)
    found: dict[str, Mapping[str, str]] = {}
    for address in (await admin.masters(o.clusterName)).values():
        config = await admin.brokers.config(address)
        found[config.get("brokerName", address)] = {
            name: config[name] for name in _CONFIGS if name in config
        }
    scale = {
        "masterBrokerSize": len(found),
        "namesrvSize": len(admin.name_servers.addresses),
        "slaveBrokerSize": sum(len(data.broker_addrs) for data in brokers) - len(found),
    }
    _write(o, "configs", {"brokerConfigs": found, "clusterScale": scale}, out)


async def _metrics(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    report: dict[str, Any] = {}
    for name, address in (await admin.masters(o.clusterName)).items():
        groups = (await _groups(admin, address)).subscription_group_table
        table = await admin.brokers.runtime(address)
        config = await admin.brokers.config(address)
        report[name] = {
            "runtimeEnv": _given(
                cpuNum=config.get("clientCallbackExecutorThreads"),
                totalMemKBytes=table.get("totalMemKBytes"),
            ),
            "runtimeQuota": await _quota(admin, address, table, groups=len(groups)),
            "runtimeVersion": {
                "clientInfo": await _clients(admin, groups),
                "rocketmqVersion": version_name(CURRENT_VERSION),
            },
        }
    quotas = [one["runtimeQuota"] for one in report.values()]
    total = {
        "totalOneDayNum": _sums((quota["oneDayNum"] for quota in quotas), before=""),
        "totalTps": _sums((quota["tps"] for quota in quotas), before="total"),
    }
    _write(o, "metrics", {"evaluateReport": report, "totalData": total}, out)


def _given(**values: str | None) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}


def _sums(tables: Iterable[Mapping[str, float]], *, before: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for table in tables:
        for name, value in table.items():
            key = f"{before}{name[0].upper()}{name[1:]}" if before else name
            found[key] = found.get(key, 0) + value
    return found


async def _quota(
    admin: AdminClient, address: str, table: Mapping[str, str], *, groups: int
) -> dict[str, Any]:
    half = await _puts(admin, address, HALF_TOPIC)
    delayed = await _puts(admin, address, SCHEDULE_TOPIC)
    out_tps = table.get("getTransferredTps") or table.get("getTransferedTps") or "0"

    def yesterday(name: str) -> int:
        until, since = table.get(f"{name}TodayMorning"), table.get(f"{name}YesterdayMorning")
        return int(until or 0) - int(since or 0)

    return {
        "diskRatio": _given(
            commitLogDiskRatio=table.get("commitLogDiskRatio"),
            consumeQueueDiskRatio=table.get("consumeQueueDiskRatio"),
        ),
        "groupSize": groups,
        "messageAverageSize": table.get("putMessageAverageSize"),
        "oneDayNum": {
            "normalOneDayInNum": yesterday("msgPutTotal"),
            "normalOneDayOutNum": yesterday("msgGetTotal"),
            "scheduleOneDayInNum": _day(delayed),
            "transOneDayInNum": _day(half),
        },
        "topicSize": len((await _topics(admin, address, special=False)).topic_config_table),
        "tps": {
            "normalInTps": float((table.get("putTps") or "0").split()[0]),
            "normalOutTps": float(out_tps.split()[0]),
            "scheduleInTps": delayed.stats_minute.tps,
            "transInTps": half.stats_minute.tps,
        },
    }


async def _puts(admin: AdminClient, address: str, topic: str) -> BrokerStatsData:
    try:
        return await admin.brokers.stats_item(address, "TOPIC_PUT_NUMS", topic)
    except BrokerError:  # nothing was counted yet
        return BrokerStatsData()


def _day(found: BrokerStatsData) -> int:
    return found.stats_day.sum or found.stats_hour.sum or found.stats_minute.sum


async def _clients(admin: AdminClient, groups: Iterable[str]) -> list[str]:
    found = set()
    for group in groups:
        try:
            connection = await admin.groups.connection(group)
        except ContrailError:  # nobody is connected
            continue
        for member in connection.connection_set:
            found.add(f"{member.language}%{version_name(member.version)}")
    return sorted(found)


_WHERE: Final = may("f", "filePath", f"folder of the file ({FOLDER})", FOLDER)
_CLUSTER: Final = need("c", "clusterName", "choose a cluster to export")
COMMANDS: Final = {
    "exportMetadata": AdminCommand(
        "export metadata",
        (may("c", "clusterName", "choose a cluster to export"),
         may("b", "brokerAddr", "choose a broker to export"), _WHERE,
         switch("t", "topic", "only export topic metadata"),
         switch("g", "subscriptionGroup", "only export subscriptionGroup metadata"),
         switch("s", "specialTopic", "need retryTopic and dlqTopic")),
        _metadata,
    ),
    "exportConfigs": AdminCommand("export configs", (_CLUSTER, _WHERE), _configs),
    "exportMetrics": AdminCommand("export metrics", (_CLUSTER, _WHERE), _metrics),
}  # fmt: skip
