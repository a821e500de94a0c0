"""mqadmin's commands about groups, their clients and their offsets."""

from __future__ import annotations

import argparse
from typing import Any, Final, TextIO

from contrailmq.admin.client import AdminClient
from contrailmq.admin.mqadmin.command import (
    AdminCommand,
    all_or,
    integer,
    may,
    moment,
    moment_of,
    moment_text,
    need,
    plain,
    retry_policy,
    switch,
    targets,
    truth,
)
from contrailmq.errors import BrokerError, ConsumerNotOnline, ContrailError
from contrailmq.protocol.bodies.clients import ConsumerConnection
from contrailmq.protocol.bodies.group import SubscriptionGroupConfig
from contrailmq.protocol.names import RETRY_PREFIX, is_retry_topic
from contrailmq.protocol.versions import version_name

_PROGRESS: Final = "{:<64}  {:<32}  {:<4}  {:<20}  {:<20}  {:<20}  {}\n"
_GROUPS: Final = "{:<64}  {:<6}  {:<24} {:<5}  {:<14}  {:<7}  {}\n"
_GROUP: Final = need("g", "groupName", "consumer group name")
_RESET: Final = "{:<20}  {:<20}  {:<20}  {:<20}  {:<20}  {:<20}\n"
_TYPES: Final = {"CONSUME_PASSIVELY": "PUSH", "CONSUME_ACTIVELY": "PULL", "CONSUME_POP": "POP"}


async def _progress(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    if o.groupName is None:
        await _all_progress(admin, out)
        return
    stats = await admin.offsets.stats(o.groupName, o.topicName)
    out.write(
        _PROGRESS.format("#Topic", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset",
                         "#Diff", "#LastTime")
    )  # fmt: skip
    for queue, offset in stats.offset_table.items():
        out.write(
            _PROGRESS.format(
                queue.topic, queue.broker_name, queue.queue_id, offset.broker_offset,
                offset.consumer_offset, offset.broker_offset - offset.consumer_offset,
                moment_text(offset.last_timestamp)[:19] or "N/A",
            )
        )  # fmt: skip
    out.write(f"\nConsume TPS: {stats.consume_tps:.2f}\nDiff Total: {stats.total_diff()}\n")


async def _all_progress(admin: AdminClient, out: TextIO) -> None:
    out.write(
        _GROUPS.format("#Group", "#Count", "#Version", "#Type", "#Model", "#TPS", "#Diff Total")
    )
    for topic in await admin.topics.names():
        if not is_retry_topic(topic):
            continue
        group = topic.removeprefix(RETRY_PREFIX)
        try:
            connection = await admin.groups.connection(group)
        except ContrailError:
            connection = ConsumerConnection()
        try:
            stats = await admin.offsets.stats(group)
            tps, diff = int(stats.consume_tps), stats.total_diff()
        except BrokerError:
            tps = diff = 0
        versions = [member.version for member in connection.connection_set]
        out.write(
            _GROUPS.format(
                group, len(versions), version_name(min(versions)) if versions else "OFFLINE",
                _TYPES.get(connection.consume_type or "", ""),
                connection.message_model or "", tps, diff,
            )
        )  # fmt: skip


async def _update(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    config = SubscriptionGroupConfig(
        group_name=o.groupName,
        consume_enable=truth(o.consumeEnable, default=True),
        consume_from_min_enable=truth(o.consumeFromMinEnable, default=False),
        consume_broadcast_enable=truth(o.consumeBroadcastEnable, default=False),
        retry_queue_nums=int(o.retryQueueNums),
        retry_max_times=int(o.retryMaxTimes),
        broker_id=int(o.brokerId),
        which_broker_when_consume_slowly=int(o.whichBrokerWhenConsumeSlowly),
        notify_consumer_ids_changed_enable=truth(o.notifyConsumerIdsChanged, default=True),
        consume_message_orderly=truth(o.consumeMessageOrderly, default=False),
        group_retry_policy=retry_policy(o.groupRetryPolicy),
    )
    for address in await targets(admin, o):
        await admin.groups.create_at(address, config)
        out.write(f"create subscription group to {address} success.\n")
    fields = ", ".join(
        f"{name}={str(value).lower() if isinstance(value, bool) else value}"
        for name, value in _shown(config).items()
    )
    out.write(f"SubscriptionGroupConfig [{fields}]\n")


def _shown(config: SubscriptionGroupConfig) -> dict[str, Any]:
    found = plain(config)
    names = (
        "groupName", "consumeEnable", "consumeFromMinEnable", "consumeBroadcastEnable",
        "retryQueueNums", "retryMaxTimes", "brokerId", "whichBrokerWhenConsumeSlowly",
        "notifyConsumerIdsChangedEnable",
    )  # fmt: skip
    return {name: found[name] for name in names if name in found}


async def _delete(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    for address in await targets(admin, o):
        await admin.groups.delete_at(
            address, o.groupName, offsets=truth(o.removeOffset, default=False)
        )
        place = (
            f"broker [{address}]"
            if o.brokerAddr
            else f"broker [{address}] in cluster [{o.clusterName}]"
        )
        out.write(f"delete subscription group [{o.groupName}] from {place} success.\n")


async def _config(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    for data in await admin.brokers.members():
        address = data.broker_addrs.get(0)
        if address is None:
            continue
        try:
            config = await admin.groups.config(address, o.groupName)
        except ContrailError:
            continue
        out.write("=" * 29 + f"{data.cluster}:{data.broker_name}" + "=" * 29 + "\n")
        for name, value in _shown(config).items():
            shown = str(value).lower() if isinstance(value, bool) else value
            out.write(f"{name:<40}=  {shown}\n")


async def _consumers(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    found = await admin.groups.connection(o.consumerGroup)
    row = "{:<36} {:<22} {:<10} {}\n"
    out.write(row.format("#ClientId", "#ClientAddr", "#Language", "#Version"))
    for member in sorted(found.connection_set, key=lambda one: one.client_id):
        out.write(
            row.format(
                member.client_id, member.client_addr, member.language, version_name(member.version)
            )
        )
    out.write("\nBelow is subscription:\n")
    row = "{:<20}  {}\n"
    out.write(row.format("#Topic", "#SubExpression"))
    for topic, data in sorted(found.subscription_table.items()):
        out.write(row.format(topic, data.sub_string))
    out.write(
        f"\nConsumeType: {found.consume_type}\nMessageModel: {found.message_model}\n"
        f"ConsumeFromWhere: {found.consume_from_where}\n"
    )


async def _producers(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    found = await admin.groups.producer_connection(o.producerGroup, o.topic)
    for number, member in enumerate(
        sorted(found.connection_set, key=lambda one: one.client_id), start=1
    ):
        out.write(
            f"{number:04d}  {member.client_id:<32} {member.client_addr:<22} {member.language:<8} "
            f"{version_name(member.version)}\n"
        )


async def _status(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    found = await admin.groups.connection(o.consumerGroup)
    members = [o.clientId] if o.clientId else [one.client_id for one in found.connection_set]
    for number, client_id in enumerate(sorted(members), start=1):
        running = await admin.groups.running_info(o.consumerGroup, client_id, stacks=o.jstack)
        out.write(f"{number:04d}  {client_id}\n")
        out.write("#Consumer Properties#\n")
        for name, value in sorted(running.properties.items()):
            out.write(f"{name:<40}: {value}\n")
        out.write("\n#Consumer Subscription#\n")
        for place, data in enumerate(sorted(running.subscription_set, key=lambda one: one.topic)):
            mode = str(data.class_filter_mode).lower()
            out.write(
                f"{place:03d} Topic: {data.topic:<40} ClassFilter: {mode:<8} "
                f"SubExpression: {data.sub_string}\n"
            )
        out.write("\n#Consumer Offset#\n")
        row = "{:<64}  {:<32}  {:<4}  {:<20}\n"
        out.write(row.format("#Topic", "#Broker Name", "#QID", "#Consumer Offset"))
        for queue, held in sorted(running.mq_table.items()):
            out.write(
                row.format(queue.topic, queue.broker_name, queue.queue_id, held.commit_offset)
            )
        out.write("\n#Consumer RT&TPS#\n")
        row = "{:<64}  {:>14} {:>14} {:>14} {:>14} {:>18} {:>25}\n"
        out.write(
            row.format("#Topic", "#Pull RT", "#Pull TPS", "#Consume RT", "#ConsumeOK TPS",
                       "#ConsumeFailed TPS", "#ConsumeFailedMsgsInHour")
        )  # fmt: skip
        for topic, rates in sorted(running.status_table.items()):
            values = (rates.pull_rt, rates.pull_tps, rates.consume_rt, rates.consume_ok_tps,
                      rates.consume_failed_tps)  # fmt: skip
            out.write(
                row.format(topic, *(f"{value:.2f}" for value in values), rates.consume_failed_msgs)
            )
        if running.jstack:
            out.write(f"\n#Consumer jstack#\n{running.jstack}\n")


async def _reset(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    timestamp, force = moment_of(o.timestamp), truth(o.force, default=True)
    told = (
        f"rollback consumer offset by specified consumerGroup[{o.group}], topic[{o.topic}], "
        f"force[{str(force).lower()}], timestamp(string)[{o.timestamp}], "
        f"timestamp(long)[{timestamp}]\n"
    )
    out.write(told)
    try:
        moved = await admin.offsets.reset(o.topic, o.group, timestamp, force=force)
    except ConsumerNotOnline:
        await _reset_offline(admin, o, out, timestamp=timestamp, force=force)
        return
    out.write("{:<40}  {:<40}  {:<40}\n".format("#brokerName", "#queueId", "#offset"))
    for queue, offset in sorted(moved.items()):
        out.write(f"{queue.broker_name:<40.40}  {queue.queue_id:<40}  {offset:<40}\n")


async def _reset_old(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    timestamp, force = moment_of(o.timestamp), truth(o.force, default=True)
    await _reset_offline(admin, o, out, timestamp=timestamp, force=force)


async def _reset_offline(
    admin: AdminClient, o: argparse.Namespace, out: TextIO, *, timestamp: int, force: bool
) -> None:
    done = await admin.offsets.reset_offline(o.topic, o.group, timestamp, force=force)
    out.write(
        _RESET.format("#brokerName", "#queueId", "#brokerOffset", "#consumerOffset",
                      "#timestampOffset", "#rollbackOffset")
    )  # fmt: skip
    for one in done:
        out.write(
            _RESET.format(one.queue.broker_name, one.queue.queue_id, one.broker_offset,
                          one.consumer_offset, one.time_offset, one.rollback_offset)
        )  # fmt: skip


async def _skip(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    o.timestamp, o.force = "now", "true"
    await _reset(admin, o, out)


async def _clone(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    await admin.offsets.clone(
        o.srcGroup, o.destGroup, o.topic, offline=truth(o.offline, default=False)
    )
    out.write(
        f"clone group offset success. srcGroup[{o.srcGroup}], destGroup=[{o.destGroup}], "
        f"topic[{o.topic}]\n"
    )


async def _broker_stats(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    found = await admin.offsets.broker_stats(o.brokerAddr, ordered=truth(o.order, default=False))
    row = "{:<64}  {:<64}  {:<32}  {:<4}  {:<20}  {:<20}  {:<20}  {}\n"
    out.write(
        row.format("#Topic", "#Group", "#Broker Name", "#QID", "#Broker Offset",
                   "#Consumer Offset", "#Diff", "#LastTime")
    )  # fmt: skip
    least = int(o.level)
    for table in found.consume_stats_list:
        for group, several in sorted(table.items()):
            for queue, offset in sorted(
                pair for stats in several for pair in stats.offset_table.items()
            ):
                diff = offset.broker_offset - offset.consumer_offset
                if diff < least:
                    continue
                moment = moment_text(offset.last_timestamp)[:19] or "-"
                out.write(
                    row.format(queue.topic, group, queue.broker_name, queue.queue_id,
                               offset.broker_offset, offset.consumer_offset, diff, moment)
                )  # fmt: skip
    out.write(f"\nDiff Total: {found.total_diff}\n")


async def _mode(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    for address in await all_or(admin, o):
        await admin.groups.set_consume_mode(
            address, o.groupName, o.topicName, mode=o.mode,
            pop_share_queues=int(o.popShareQueueNum or 0),
        )  # fmt: skip
        out.write(f"set consume mode to {address} success.\n")
    out.write(f"topic[{o.topicName}] group[{o.groupName}] consume mode[{o.mode}]\n")


_BROKER: Final = may("b", "brokerAddr", "broker address")
_CLUSTER: Final = may("c", "clusterName", "cluster name")
_TIMES: Final = (
    need("g", "group", "set the consumer group"),
    need("t", "topic", "set the topic"),
    moment(
        need("s", "timestamp", "set the timestamp[now|currentTimeMillis|yyyy-MM-dd#HH:mm:ss:SSS]")
    ),
    may("f", "force", "set the force rollback by timestamp switch[true|false]"),
)
COMMANDS: Final = {
    "consumerProgress": AdminCommand(
        "Query consumers's progress, speed",
        (may("g", "groupName", "consumer group name"), may("t", "topicName", "topic name")),
        _progress,
    ),
    "updateSubGroup": AdminCommand(
        "Update or create subscription group",
        (
            _BROKER, _CLUSTER, _GROUP, may("s", "consumeEnable", "consume enable"),
            may("m", "consumeFromMinEnable", "from min offset"),
            may("d", "consumeBroadcastEnable", "broadcast"),
            integer(may("q", "retryQueueNums", "retry queue nums", "1")),
            integer(may("r", "retryMaxTimes", "retry max times", "16")),
            integer(may("i", "brokerId", "consumer from which broker id", "0")),
            integer(may("w", "whichBrokerWhenConsumeSlowly", "broker id when consume slowly", "1")),
            may("a", "notifyConsumerIdsChanged", "notify consumerId changed"),
            may("o", "consumeMessageOrderly", "consume message orderly"),
            may("p", "groupRetryPolicy", "the json string of retry policy"),
        ),
        _update,
    ),
    "deleteSubGroup": AdminCommand(
        "Delete subscription group from broker.",
        (_BROKER, _CLUSTER, _GROUP, may("r", "removeOffset", "remove offset (true|false)")),
        _delete,
    ),
    "getConsumerConfig": AdminCommand(
        "Get consumer config by subscription group name", (_GROUP,), _config
    ),
    "consumerConnection": AdminCommand(
        "Query consumer's socket connection, client version and subscription",
        (need("g", "consumerGroup", "consumer group name"),), _consumers,
    ),
    "producerConnection": AdminCommand(
        "Query producer's socket connection and client version",
        (need("g", "producerGroup", "producer group name"), need("t", "topic", "topic name")),
        _producers,
    ),
    "consumerStatus": AdminCommand(
        "Query consumer's internal data structure",
        (need("g", "consumerGroup", "consumer group name"), may("i", "clientId", "the client"),
         switch("s", "jstack", "Run jstack command in the consumer progress")),
        _status,
    ),
    "resetOffsetByTime": AdminCommand(
        "Reset consumer offset by timestamp(without client restart).", _TIMES, _reset
    ),
    "resetOffsetByTimeOld": AdminCommand(
        "Reset consumer offset by timestamp(execute this command required client restart).",
        _TIMES, _reset_old,
    ),
    "skipAccumulatedMessage": AdminCommand(
        "Skip all messages that are accumulated (not consumed) currently",
        (need("g", "group", "set the consumer group"), need("t", "topic", "set the topic"),
         may("f", "force", "set the force rollback switch")),
        _skip,
    ),
    "cloneGroupOffset": AdminCommand(
        "clone offset from other group.",
        (need("s", "srcGroup", "set source consumer group"),
         need("d", "destGroup", "set destination consumer group"), need("t", "topic", "the topic"),
         may("o", "offline", "the group or the topic is offline")),
        _clone,
    ),
    "brokerConsumeStats": AdminCommand(
        "Fetch broker consume stats data",
        (need("b", "brokerAddr", "Broker address"),
         integer(may("t", "timeoutMillis", "request timeout")),
         integer(may("l", "level", "threshold of print diff", "0")),
         may("o", "order", "order topic")),
        _broker_stats,
    ),
    "setConsumeMode": AdminCommand(
        "Set consume message mode. pull/pop etc.",
        (_BROKER, _CLUSTER, need("g", "groupName", "group"), need("t", "topicName", "topic"),
         need("m", "mode", "PULL or POP"), integer(may("q", "popShareQueueNum", "shared queues"))),
        _mode,
    ),
}  # fmt: skip
