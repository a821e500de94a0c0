"""mqadmin's commands about topics."""

from __future__ import annotations

import argparse
from typing import Final, TextIO

from contrailmq.admin.client import AdminClient
from contrailmq.admin.mqadmin.command import (
    AdminCommand,
    integer,
    java_map,
    may,
    moment_text,
    need,
    plain,
    switch,
    targets,
    truth,
)
from contrailmq.client.allocate import strategy_of
from contrailmq.errors import ClientError, ContrailError, NoRoute
from contrailmq.protocol.bodies.topic import TopicConfig
from contrailmq.protocol.fastjson import dumps
from contrailmq.protocol.names import is_dlq_topic, is_retry_topic

_SHOWN: Final = "{:<32}  {:<4}  {:<20}  {:<20}    {}\n"
_ROUTE: Final = "{:<45} {:<32} {:<50} {:<10} {:<11} {:<5}\n"
_TOPIC: Final = need("t", "topic", "topic name")
_BROKER: Final = may("b", "brokerAddr", "create topic to which broker")
_CLUSTER: Final = may("c", "clusterName", "create topic to which cluster")


async def _update(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    config = TopicConfig(
        topic_name=o.topic,
        read_queue_nums=int(o.readQueueNums),
        write_queue_nums=int(o.writeQueueNums),
        perm=int(o.perm),
        order=truth(o.order, default=False),
        topic_sys_flag=int(truth(o.unit, default=False))
        | int(truth(o.hasUnitSub, default=False)) * 2,
    )
    for address in await targets(admin, o):
        await admin.topics.create_at(address, config, attributes=o.attributes)
        out.write(f"create topic to {address} success.\n")
    if config.order and o.clusterName is not None:
        names = await admin.masters(o.clusterName)
        text = ";".join(f"{name}:{config.write_queue_nums}" for name in names)
        await admin.topics.put_order_conf(o.topic, text)
        out.write(f"set cluster orderConf. isOrder=true, orderConf=[{text}]\n")
    out.write(f"{config_text(config)}\n")


def config_text(config: TopicConfig) -> str:
    """A topic as TopicConfig.toString writes it."""
    perm = "".join(
        letter if config.perm & bit else "-" for letter, bit in (("R", 4), ("W", 2), ("X", 1))
    )
    return (
        f"TopicConfig [topicName={config.topic_name}, readQueueNums={config.read_queue_nums}, "
        f"writeQueueNums={config.write_queue_nums}, perm={perm}, "
        f"topicFilterType={config.topic_filter_type}, topicSysFlag={config.topic_sys_flag}, "
        f"order={str(bool(config.order)).lower()}]"
    )


async def _delete(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    await admin.topics.delete(o.topic, cluster=o.clusterName)
    out.write(f"delete topic [{o.topic}] from cluster [{o.clusterName}] success.\n")
    out.write(f"delete topic [{o.topic}] from NameServer success.\n")


async def _perm(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    for address in await targets(admin, o):
        config = await admin.topics.config(address, o.topic)
        before, config.perm = config.perm, int(o.perm)
        if before == config.perm:
            out.write("new perm equals to the old one!\n")
            continue
        await admin.topics.create_at(address, config)
        out.write(f"update topic perm from {before} to {config.perm} in {address} success.\n")


async def _list(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    topics = await admin.topics.names()
    if not o.clusterModel:
        out.writelines(f"{topic}\n" for topic in topics)
        return
    out.write("{:<20}  {:<48}  {:<48}\n".format("#Cluster Name", "#Topic", "#Consumer Group"))
    for topic in topics:
        if is_retry_topic(topic) or is_dlq_topic(topic):
            continue
        try:
            clusters = await admin.topics.clusters(topic)
            groups = await admin.topics.groups(topic) or [""]
        except ContrailError:
            clusters, groups = [""], [""]
        for cluster in clusters:
            out.writelines(f"{cluster:<20}  {topic:<64}  {group:<64}\n" for group in groups)


async def _route(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    route = await admin.route(o.topic)
    if not o.list:
        text = route.encode(legacy=True, standard=False, pretty=True).decode()
        # Java puts the items of its two lists on lines of their own.
        for one_line, lines in ((":[{", ":[\n\t\t{"), ("},{", "},\n\t\t{"), ("}]", "}\n\t]")):
            text = text.replace(one_line, lines)
        out.write(text + "\n")
        return
    places = {data.broker_name: data for data in route.broker_datas}
    out.write(
        _ROUTE.format(
            "#ClusterName", "#BrokerName", "#BrokerAddrs", "#ReadQueue", "#WriteQueue", "#Perm"
        )
    )
    reads = writes = 0
    for queues in sorted(route.queue_datas, key=lambda one: one.broker_name):
        data = places[queues.broker_name]
        reads, writes = reads + queues.read_queue_nums, writes + queues.write_queue_nums
        out.write(
            _ROUTE.format(
                data.cluster, queues.broker_name, java_map(data.broker_addrs),
                queues.read_queue_nums, queues.write_queue_nums, queues.perm,
            )
        )  # fmt: skip
    out.write("-" * 158 + "\n")
    out.write(_ROUTE.format("Total:", len(places), "", reads, writes, ""))


async def _status(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    stats = await admin.topics.stats(o.topic)
    out.write(_SHOWN.format("#Broker Name", "#QID", "#Min Offset", "#Max Offset", "#Last Updated"))
    for queue, offset in stats.items():
        out.write(
            _SHOWN.format(
                queue.broker_name, queue.queue_id, offset.min_offset, offset.max_offset,
                moment_text(offset.last_update_timestamp),
            )
        )  # fmt: skip


async def _clusters(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    out.writelines(f"{cluster}\n" for cluster in await admin.topics.clusters(o.topic))


async def _order_conf(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    if o.method == "get":
        text = await admin.topics.order_conf(o.topic)
        out.write(f"get orderConf success. topic=[{o.topic}], orderConf=[{text}] \n")
    elif o.method == "put":
        if o.orderConf is None:
            raise ClientError("put needs -v, broker:queues;broker:queues")
        await admin.topics.put_order_conf(o.topic, o.orderConf)
        out.write(f"update orderConf success. topic=[{o.topic}], orderConf=[{o.orderConf}]\n")
    elif o.method == "delete":
        await admin.topics.delete_order_conf(o.topic)
        out.write(f"delete orderConf success. topic=[{o.topic}]\n")
    else:
        raise ClientError(f"method {o.method!r}: put, get or delete")


async def _allocate(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    members = sorted(filter(None, o.ipList.split(",")))
    queues = sorted(await admin.topics.stats(o.topic))
    divide = strategy_of("AVG")
    result = {
        member: [
            {"brokerName": q.broker_name, "queueId": q.queue_id, "topic": q.topic}
            for q in divide.allocate(member, queues, members)
        ]
        for member in members
    }
    out.write(dumps({"result": result}).decode() + "\n")


async def _stats(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    row = "{:<64}  {:<64} {:>12} {:>11} {:>11} {:>14} {:>14}\n"
    out.write(
        row.format("#Topic", "#Consumer Group", "#Accumulation", "#InTPS", "#OutTPS",
                   "#InMsg24Hour", "#OutMsg24Hour")
    )  # fmt: skip
    for topic in await admin.topics.names():
        if is_retry_topic(topic) or is_dlq_topic(topic) or (o.topic and o.topic != topic):
            continue
        try:
            masters = await admin.masters_of(topic)
            groups = await admin.topics.groups(topic)
        except NoRoute:
            continue
        in_tps, in_day = await _figure(admin, masters, "TOPIC_PUT_NUMS", topic)
        if o.activeTopic and in_day <= 0:
            continue
        for group in groups or [""]:
            lag, out_tps, out_day = 0, 0.0, 0
            if group:
                out_tps, out_day = await _figure(
                    admin, masters, "GROUP_GET_NUMS", f"{topic}@{group}"
                )
                try:
                    lag = max((await admin.offsets.stats(group, topic)).total_diff(), 0)
                except ContrailError:
                    lag = 0
            tps = f"{in_tps:.2f}", f"{out_tps:.2f}" if group else ""
            out.write(
                row.format(topic, group, lag if group else 0, *tps, in_day,
                           out_day if group else "NO_CONSUMER")
            )  # fmt: skip


async def _figure(
    admin: AdminClient, masters: dict[str, str], name: str, key: str
) -> tuple[float, int]:
    """Rate of the last minute and sum of the day, over all brokers; nothing where unknown."""
    tps, day = 0.0, 0
    for address in masters.values():
        try:
            found = await admin.brokers.stats_item(address, name, key)
        except ContrailError:
            continue
        tps += found.stats_minute.tps
        day += found.stats_day.sum or found.stats_hour.sum or found.stats_minute.sum
    return tps, day


async def _config(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    for name, address in sorted((await admin.masters_of(o.topic)).items()):
        out.write(f"============{name}============\n")
        for key, value in sorted(plain(await admin.topics.config(address, o.topic)).items()):
            out.write(f"{key:<50}=  {value}\n")


COMMANDS: Final = {
    "updateTopic": AdminCommand(
        "Update or create topic",
        (
            _BROKER, _CLUSTER, _TOPIC,
            integer(may("r", "readQueueNums", "set read queue nums", "8")),
            integer(may("w", "writeQueueNums", "set write queue nums", "8")),
            integer(may("p", "perm", "set topic's permission(2|4|6), 2:W 4:R 6:RW", "6")),
            may("o", "order", "set topic's order(true|false)"),
            may("u", "unit", "is unit topic (true|false)"),
            may("s", "hasUnitSub", "has unit sub (true|false)"),
            may("a", "attributes", "attribute(+a=b,+c=d,-e)"),
        ),
        _update,
    ),
    "deleteTopic": AdminCommand(
        "Delete topic from broker and NameServer.",
        (_TOPIC, need("c", "clusterName", "delete topic from which cluster")), _delete,
    ),
    "updateTopicPerm": AdminCommand(
        "Update topic perm",
        (_BROKER, _CLUSTER, _TOPIC, integer(need("p", "perm", "set topic's permission(2|4|6)"))),
        _perm,
    ),
    "topicList": AdminCommand(
        "Fetch all topic list from name server",
        (switch("c", "clusterModel", "clusterModel"),), _list,
    ),
    "topicRoute": AdminCommand(
        "Examine topic route info", (_TOPIC, switch("l", "list", "Use list format")), _route
    ),
    "topicStatus": AdminCommand("Examine topic Status info", (_TOPIC,), _status),
    "topicClusterList": AdminCommand("Get cluster info for topic", (_TOPIC,), _clusters),
    "updateOrderConf": AdminCommand(
        "Create or update or delete order conf",
        (_TOPIC, may("v", "orderConf", "eg. brokerName1:num;brokerName2:num"),
         need("m", "method", "option type [eg. put|get|delete]")),
        _order_conf,
    ),
    "allocateMQ": AdminCommand(
        "Allocate MQ", (_TOPIC, need("i", "ipList", "ipList")), _allocate
    ),
    "statsAll": AdminCommand(
        "Topic and Consumer tps stats",
        (switch("a", "activeTopic", "print active topic only"), may("t", "topic", "one only")),
        _stats,
    ),
    "getTopicConfig": AdminCommand("Settings of a topic at each broker", (_TOPIC,), _config),
}  # fmt: skip
