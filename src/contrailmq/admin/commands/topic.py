"""``contrail topic``: create, list, show and delete topics."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, Final, TextIO

from contrailmq.admin.client import AdminClient
from contrailmq.admin.options import (
    confirmed,
    connection_options,
    json_option,
    new_parser,
    sub_command,
    with_admin,
)
from contrailmq.admin.output import Printer, when
from contrailmq.errors import ClientError
from contrailmq.protocol.bodies.topic import PERM_READ, PERM_WRITE, TopicConfig
from contrailmq.protocol.names import (
    REPLY_TOPIC_SUFFIX,
    is_dlq_topic,
    is_retry_topic,
    is_system_topic,
    topic_fault,
)
from contrailmq.usage import whole

QUEUES_MAX: Final = 65_536  # more are refused by brokers
_EPILOG: Final = """\
examples:
  contrail topic create orders --queues 8
  contrail topic list                          yours; --all adds the system's, retries, dead letters
  contrail topic show orders                   queues, offsets, who consumes
  contrail topic delete orders --yes
"""
_LETTERS: Final = {"r": PERM_READ, "w": PERM_WRITE}


def main(argv: Sequence[str], out: TextIO | None = None) -> int:
    """Run one command line."""
    options = parser().parse_args(argv)
    printer = Printer(out, as_json=options.json)
    return with_admin(options, lambda admin: options.act(admin, options, printer))


async def _list(admin: AdminClient, options: argparse.Namespace, printer: Printer) -> int:
    found: dict[str, dict[str, Any]] = {}
    answers = await admin.ask_masters(admin.topics.configs, options.cluster)
    for broker, configs in answers.items():
        for topic, config in sorted(configs.items()):
            row = found.setdefault(
                topic,
                {
                    "topic": topic,
                    "kind": kind_of(topic, set()),
                    "brokers": [],
                    "readQueues": 0,
                    "writeQueues": 0,
                    "permission": permission_text(config.perm),
                    "order": bool(config.order),
                },
            )
            row["brokers"].append(broker)
            row["readQueues"] += config.read_queue_nums
            row["writeQueues"] += config.write_queue_nums
    names = set(await admin.topics.system())
    rows = []
    for topic in sorted(found):
        row = {**found[topic], "kind": kind_of(topic, names)}
        if options.all or row["kind"] == "normal":
            rows.append(row)
    if options.counts:
        for row in rows:
            stats = await admin.topics.stats(row["topic"])
            row["messages"] = sum(o.max_offset - o.min_offset for o in stats.values())
            row["lastStored"] = max((o.last_update_timestamp for o in stats.values()), default=0)
            if not printer.as_json:
                row["lastStored"] = when(row["lastStored"])
    head = ["topic", "kind", "readQueues", "writeQueues", "permission", "order", "brokers"]
    printer.rows(rows, head + (["messages", "lastStored"] if options.counts else []))
    if not rows:
        printer.say("no topics yet; contrail topic create NAME makes one, so does the first send")
    return 0


async def _show(admin: AdminClient, options: argparse.Namespace, printer: Printer) -> int:
    stats = await admin.topics.stats(options.topic)
    route = await admin.route(options.topic)
    if not printer.as_json:
        for data in sorted(route.queue_datas, key=lambda queues: queues.broker_name):
            printer.say(
                f"{options.topic} at {data.broker_name}: {data.read_queue_nums} queues to read, "
                f"{data.write_queue_nums} to write, {permission_text(data.perm)}"
            )
        if route.order_topic_conf:
            printer.say(f"order: {route.order_topic_conf}")
        groups = await admin.topics.groups(options.topic)
        printer.say(f"consumed by {', '.join(groups) or 'nobody'}")
        printer.say("")
    rows = [
        {
            "broker": queue.broker_name,
            "queue": queue.queue_id,
            "min": offset.min_offset,
            "max": offset.max_offset,
            "messages": offset.max_offset - offset.min_offset,
            "lastStored": offset.last_update_timestamp
            if printer.as_json
            else when(offset.last_update_timestamp),
        }
        for queue, offset in stats.items()
    ]
    printer.rows(rows)
    return 0


async def _create(admin: AdminClient, options: argparse.Namespace, printer: Printer) -> int:
    fault = topic_fault(options.topic)
    if fault is not None:
        raise ClientError(fault)
    config = TopicConfig(
        topic_name=options.topic,
        read_queue_nums=options.read_queues or options.queues,
        write_queue_nums=options.write_queues or options.queues,
        perm=options.perm,
        order=options.ordered,
    )
    attributes = ",".join(options.attribute) or None
    if options.broker is not None:
        places = {options.broker: await admin.address_of(options.broker)}
    else:
        places = await admin.masters(options.cluster)
    if not places:
        raise ClientError("there is no broker; contrail doctor says what is wrong")
    for address in places.values():
        await admin.topics.create_at(address, config, attributes=attributes)
    printer.value(
        {"topic": options.topic, "brokers": sorted(places), "writeQueues": config.write_queue_nums},
        f"topic {options.topic} with {config.write_queue_nums} queues at {', '.join(places)}",
    )
    return 0


async def _delete(admin: AdminClient, options: argparse.Namespace, printer: Printer) -> int:
    for topic in options.topic:
        await admin.route(topic)  # one that nobody has is an error, not a success
    if not confirmed(
        options, f"Delete {', '.join(options.topic)} with all messages?", stdin=sys.stdin
    ):
        return 1
    for topic in options.topic:
        places = await admin.topics.delete(topic, cluster=options.cluster)
        printer.value(
            {"topic": topic, "brokers": sorted(places), "deleted": True},
            f"topic {topic} deleted at {', '.join(places)}",
        )
    return 0


def kind_of(topic: str, system: set[str]) -> str:
    """What a topic is for: normal, retry, dlq or system."""
    if is_retry_topic(topic):
        return "retry"
    if is_dlq_topic(topic):
        return "dlq"
    is_own = is_system_topic(topic) or topic in system or topic.endswith(f"_{REPLY_TOPIC_SUFFIX}")
    return "system" if is_own else "normal"


def permission_text(perm: int) -> str:
    """``rw``, ``r``, ``w`` or ``none``."""
    letters = "".join(letter for letter, bit in _LETTERS.items() if perm & bit)
    return letters or "none"


def _permission(text: str) -> int:
    if not text or set(text) - set(_LETTERS):
        raise argparse.ArgumentTypeError(f"{text!r}: r, w or rw")
    return sum({_LETTERS[letter] for letter in text})


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    top = new_parser("topic", "Create, list, show and delete topics.", _EPILOG)
    commands = top.add_subparsers(required=True, metavar="create|list|show|delete")
    parents = [connection_options()]
    lister = sub_command(commands, "list", _list, "all topics", parents=parents)
    lister.add_argument("-a", "--all", action="store_true", help="system, retry and DLQ topics too")
    lister.add_argument("--counts", action="store_true", help="add messages and last store time")
    lister.add_argument("-c", "--cluster", help="of this cluster only")
    shower = sub_command(commands, "show", _show, "queues and offsets of a topic", parents=parents)
    shower.add_argument("topic")
    creator = sub_command(commands, "create", _create, "create or change a topic", parents=parents)
    creator.add_argument("topic")
    some = whole(1, QUEUES_MAX)
    creator.add_argument("-q", "--queues", type=some, default=8, help="queues per broker (8)")
    creator.add_argument("--read-queues", type=some, metavar="N", help="where they differ")
    creator.add_argument("--write-queues", type=some, metavar="N", help="where they differ")
    creator.add_argument(
        "--perm", type=_permission, default=PERM_READ | PERM_WRITE, metavar="rw", help="r, w or rw"
    )
    creator.add_argument("--ordered", action="store_true", help="mark it as ordered")
    creator.add_argument(
        "--attribute", action="append", default=[], metavar="+KEY=VALUE", help="5.x attributes"
    )
    place = creator.add_mutually_exclusive_group()
    place.add_argument("-c", "--cluster", help="at the brokers of this cluster only")
    place.add_argument("-b", "--broker", help="at this broker only")
    deleter = sub_command(
        commands, "delete", _delete, "delete topics and their messages", parents=parents
    )
    deleter.add_argument("topic", nargs="+")
    deleter.add_argument("-c", "--cluster", help="at the brokers of this cluster only")
    deleter.add_argument("--yes", action="store_true", help="do not ask")
    for command in (lister, shower, creator, deleter):
        json_option(command)
    return top
