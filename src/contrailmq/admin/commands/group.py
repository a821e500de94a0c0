"""``contrail group``: consumer groups, their members, their lag, and where they go on."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any, Final, TextIO

from contrailmq.admin.client import AdminClient
from contrailmq.admin.moments import start_moment
from contrailmq.admin.offset_calls import NOW
from contrailmq.admin.options import (
    confirmed,
    connection_options,
    json_option,
    new_parser,
    sub_command,
    with_admin,
)
from contrailmq.admin.output import Printer, when
from contrailmq.errors import (
    BrokerError,
    ClientError,
    ConsumerNotOnline,
    NetworkError,
    SubscriptionGroupNotExist,
    UsageError,
)
from contrailmq.protocol.bodies.clients import ConsumerConnection
from contrailmq.protocol.bodies.group import SubscriptionGroupConfig
from contrailmq.protocol.bodies.stats import ConsumeStats
from contrailmq.protocol.names import is_retry_or_dlq, is_system_group
from contrailmq.protocol.queue import MessageQueue
from contrailmq.protocol.versions import version_name
from contrailmq.usage import whole

_EPILOG: Final = """\
examples:
  contrail group list                           members and lag of every group
  contrail group show billing                   members, subscriptions, settings
  contrail group lag billing                    queue by queue
  contrail group reset billing orders --to first
  contrail group reset billing orders --to '2026-11-15 10:00' --yes
  contrail group reset billing orders --to 2h   two hours ago
  contrail group create billing --retries 5     before its first consumer comes
  contrail group delete billing --yes           with its offsets
"""


def main(argv: Sequence[str], out: TextIO | None = None) -> int:
    """Run one command line."""
    options = parser().parse_args(argv)
    printer = Printer(out, as_json=options.json)
    return with_admin(options, lambda admin: options.act(admin, options, printer))


async def _list(admin: AdminClient, options: argparse.Namespace, printer: Printer) -> int:
    rows = []
    for group in await admin.groups.names(options.cluster):
        if is_system_group(group) and not options.all:
            continue
        rows.append(await _summary(admin, group))
    printer.rows(rows, ["group", "members", "type", "model", "topics", "lag", "tps"])
    if not rows:
        printer.say("no groups yet; a group comes to be when its first consumer connects")
    return 0


async def _summary(admin: AdminClient, group: str) -> dict[str, Any]:
    connection = await _connection(admin, group)
    is_known = True
    try:
        stats = await _stats(admin, group)
    except NetworkError:  # which broker does not answer was said when the groups were listed
        stats, is_known = ConsumeStats(), False
    topics = {queue.topic for queue in stats.offset_table} | set(connection.subscription_table)
    return {
        "group": group,
        "members": len(connection.connection_set),
        "type": _word(connection.consume_type),
        "model": _word(connection.message_model),
        "topics": sorted(topic for topic in topics if not is_retry_or_dlq(topic)),
        "lag": stats.total_diff() if is_known else None,
        "tps": round(stats.consume_tps, 1) if is_known else None,
    }


async def _connection(admin: AdminClient, group: str) -> ConsumerConnection:
    try:
        return await admin.groups.connection(group)
    except ConsumerNotOnline:
        return ConsumerConnection()


async def _stats(admin: AdminClient, group: str, topic: str | None = None) -> ConsumeStats:
    """How far a group is; a group that never committed is nowhere, which is no failure."""
    try:
        return await admin.offsets.stats(group, topic)
    except BrokerError:
        return ConsumeStats()


def _word(name: str | None) -> str | None:
    return {
        "CONSUME_PASSIVELY": "push", "CONSUME_ACTIVELY": "pull", "CONSUME_POP": "pop",
        "CLUSTERING": "clustering", "BROADCASTING": "broadcasting",
    }.get(name or "", name)  # fmt: skip


async def _show(admin: AdminClient, options: argparse.Namespace, printer: Printer) -> int:
    group = options.group
    configs = {}
    for broker, address in (await admin.masters()).items():
        table = await admin.groups.configs(address)
        if group in table:
            configs[broker] = table[group]
    connection = await _connection(admin, group)
    if not configs and not connection.connection_set:
        raise _no_group(group)
    members = [
        {
            "clientId": member.client_id,
            "address": member.client_addr,
            "language": member.language,
            "version": version_name(member.version),
        }
        for member in sorted(connection.connection_set, key=lambda one: one.client_id)
    ]
    subscriptions = [
        {"topic": topic, "expression": data.sub_string, "type": data.expression_type}
        for topic, data in sorted(connection.subscription_table.items())
    ]
    if printer.as_json:
        printer.pairs(
            {
                **(await _summary(admin, group)),
                "clients": members,
                "subscriptions": subscriptions,
                "config": {
                    name: json.loads(config.encode(standard=True))
                    for name, config in configs.items()
                },
            }
        )
        return 0
    printer.pairs(await _summary(admin, group))
    for broker, config in configs.items():
        printer.say(
            f"at {broker}: {'may' if config.consume_enable else 'may not'} consume, "
            f"{config.retry_max_times} retries, {config.retry_queue_nums} retry queues"
        )
    if subscriptions:
        printer.say("")
        printer.rows(subscriptions)
    if members:
        printer.say("")
        printer.rows(members)
    return 0


def _no_group(group: str) -> ClientError:
    return ClientError(f"no broker knows the group [{group}]; contrail group list names all")


async def _lag(admin: AdminClient, options: argparse.Namespace, printer: Printer) -> int:
    if options.group is None:
        return await _list(admin, options, printer)
    stats = await admin.offsets.stats(options.group, options.topic)
    rows = [
        {
            "topic": queue.topic,
            "broker": queue.broker_name,
            "queue": queue.queue_id,
            "end": wrapper.broker_offset,
            "consumed": wrapper.consumer_offset,
            "lag": wrapper.broker_offset - wrapper.consumer_offset,
            "lastConsumed": wrapper.last_timestamp
            if printer.as_json
            else when(wrapper.last_timestamp),
        }
        for queue, wrapper in stats.offset_table.items()
    ]
    if not rows:
        where = "" if options.topic is None else f" in {options.topic}"
        raise ClientError(
            f"no offset of group {options.group}{where} is known; contrail group list names all"
        )
    printer.rows(rows, ["topic", "broker", "queue", "end", "consumed", "lag", "lastConsumed"])
    printer.say(f"\nlag {stats.total_diff():,}, consuming {stats.consume_tps:,.1f} a second")
    return 0


async def _create(admin: AdminClient, options: argparse.Namespace, printer: Printer) -> int:
    group = options.group
    config = SubscriptionGroupConfig(
        group_name=group, retry_max_times=options.retries, consume_message_orderly=options.ordered
    )
    places = await admin.groups.create(config, cluster=options.cluster)
    printer.value(
        {"group": group, "brokers": sorted(places), "retries": options.retries},
        f"group {group} created at {', '.join(places)}",
    )
    return 0


async def _delete(admin: AdminClient, options: argparse.Namespace, printer: Printer) -> int:
    group = options.group
    connection = await _connection(admin, group)
    if connection.connection_set:
        raise ClientError(
            f"group {group} has {len(connection.connection_set)} members, the first is "
            f"{min(member.client_id for member in connection.connection_set)}; stop them first"
        )
    masters = await admin.masters(options.cluster)
    places = {
        broker: address
        for broker, address in masters.items()
        if group in await admin.groups.configs(address)
    }
    if not places:
        raise _no_group(group)
    if not confirmed(options, f"Delete {group} and where it has read to?", stdin=sys.stdin):
        return 1
    for address in places.values():
        await admin.groups.delete_at(address, group, offsets=True)
    printer.value(
        {"group": group, "brokers": sorted(places), "deleted": True},
        f"group {group} deleted at {', '.join(places)}; its retry and dead-letter topics stay",
    )
    return 0


async def _reset(admin: AdminClient, options: argparse.Namespace, printer: Printer) -> int:
    group, topic = options.group, options.topic
    if (options.offset is None) == (options.to is None):
        raise UsageError("say where to: --to first, last or a time, or --queue and --offset")
    if options.offset is not None and (options.queue is None or options.broker is None):
        raise UsageError("--offset needs --broker and --queue")
    goal = f"offset {options.offset}" if options.to is None else options.to
    shown = when(goal) if isinstance(goal, int) else goal
    if not confirmed(options, f"Let {group} go on in {topic} from {shown}?", stdin=sys.stdin):
        return 1
    if options.to is None:
        queue = MessageQueue(topic, options.broker, options.queue)
        await admin.offsets.reset_queue(queue, group, options.offset)
        moved = {queue: options.offset}
    else:
        try:
            moved = await admin.offsets.reset_anyhow(topic, group, _timestamp(options.to))
        except SubscriptionGroupNotExist:
            raise _no_group(group) from None
    rows = [
        {"topic": q.topic, "broker": q.broker_name, "queue": q.queue_id, "offset": offset}
        for q, offset in sorted(moved.items())
    ]
    printer.rows(rows, ["topic", "broker", "queue", "offset"])
    return 0


def _timestamp(goal: str | int) -> int:
    if isinstance(goal, int):
        return goal
    return 0 if goal == "first" else NOW


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    top = new_parser("group", "Consumer groups: members, lag, resets, create, delete.", _EPILOG)
    commands = top.add_subparsers(required=True, metavar="list|show|lag|reset|create|delete")
    parents = [connection_options()]
    lister = sub_command(commands, "list", _list, "all groups", parents=parents)
    shower = sub_command(commands, "show", _show, "members and settings", parents=parents)
    shower.add_argument("group")
    lagger = sub_command(commands, "lag", _lag, "the lag of each queue", parents=parents)
    lagger.add_argument("group", nargs="?", help="without it: all groups")
    lagger.add_argument("-t", "--topic", help="in this topic only")
    for command in (lister, lagger):
        command.add_argument("-a", "--all", action="store_true", help="the system's groups too")
        command.add_argument("-c", "--cluster", help="of this cluster only")
    resetter = sub_command(commands, "reset", _reset, "go on from elsewhere", parents=parents)
    resetter.add_argument("group")
    resetter.add_argument("topic")
    resetter.add_argument(
        "--to", type=start_moment, metavar="WHERE", help="first, last, 2h (ago), or a local time"
    )
    resetter.add_argument("--broker", help="one queue only: its broker")
    resetter.add_argument("--queue", type=whole(0), help="one queue only: its id")
    resetter.add_argument("--offset", type=whole(0), help="one queue only: where to")
    resetter.add_argument("--yes", action="store_true", help="do not ask")
    creator = sub_command(commands, "create", _create, "create or change", parents=parents)
    creator.add_argument("--retries", type=whole(0), default=16, help="before a dead letter (16)")
    creator.add_argument("--ordered", action="store_true", help="pop gives its messages in order")
    deleter = sub_command(commands, "delete", _delete, "with its offsets", parents=parents)
    deleter.add_argument("--yes", action="store_true", help="do not ask")
    for command in (creator, deleter):
        command.add_argument("group")
        command.add_argument("-c", "--cluster", help="in this cluster only")
    for command in (lister, shower, lagger, resetter, creator, deleter):
        json_option(command)
    return top
