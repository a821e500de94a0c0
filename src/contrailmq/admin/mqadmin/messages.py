"""mqadmin's commands that look at messages, and that send some."""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import gettempdir
from typing import Final, TextIO

from contrailmq.admin.client import AdminClient
from contrailmq.admin.mqadmin.command import (
    AdminCommand,
    integer,
    java_map,
    may,
    message_line,
    moment,
    moment_of,
    moment_text,
    need,
    truth,
)
from contrailmq.client.message import Message
from contrailmq.client.producer.producer import Producer
from contrailmq.clock import SystemClock
from contrailmq.errors import ClientError, ConsumerNotOnline, ContrailError
from contrailmq.protocol.message import Record
from contrailmq.protocol.names import TRACE_TOPIC
from contrailmq.protocol.queue import MessageQueue

_KEYS: Final = "{:<50} {:>4} {:>40}\n"
_SENT: Final = "{:<32}  {:<4}  {:<20}    {}\n"
_TOPIC: Final = need("t", "topic", "topic name")
PAGE: Final = 32


def _show(out: TextIO, record: Record, *, offset_id: bool = False, path: bool = True) -> None:
    rows = [("OffsetID:", record.offset_message_id)] if offset_id else []
    rows += [
        ("Topic:", record.topic),
        ("Tags:", f"[{record.tags}]"),
        ("Keys:", f"[{record.properties.get('KEYS', 'null')}]"),
        ("Queue ID:", str(record.queue_id)),
        ("Queue Offset:", str(record.queue_offset)),
        ("CommitLog Offset:", str(record.commit_log_offset)),
        ("Reconsume Times:", str(record.reconsume_times)),
        ("Born Timestamp:", moment_text(record.born_ms)),
        ("Store Timestamp:", moment_text(record.store_ms)),
        ("Born Host:", record.born_host),
        ("Store Host:", record.store_host),
        ("System Flag:", str(record.sys_flag)),
        ("Properties:", java_map(record.properties)),
    ]
    if path:
        rows.append(("Message Body Path:", str(_keep_body(record))))
    out.writelines(f"{name:<20} {value}\n" for name, value in rows)


def _keep_body(record: Record) -> Path:
    """Write the body where mqadmin writes it, and say where that is."""
    directory = Path(gettempdir()) / "rocketmq" / "msgbodys"
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / (record.unique_key or record.offset_message_id)
    path.write_bytes(record.payload())
    return path


async def _by_id(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    for message_id in filter(None, o.msgId.split(",")):
        record = await admin.messages.view(message_id.strip(), topic=o.topic)
        _show(out, record, offset_id=True)
        await _who(admin, out, record)


async def _who(admin: AdminClient, out: TextIO, record: Record) -> None:
    """What each group has done with the message, as far as offsets tell."""
    try:
        groups = await admin.topics.groups(record.topic)
    except ContrailError:
        return
    if not groups:
        out.write("\n\nWARN: No Consumer")
    for group in groups:
        try:
            stats = await admin.offsets.stats(group, record.topic)
        except ContrailError:
            continue
        done = any(
            queue.queue_id == record.queue_id and offset.consumer_offset > record.queue_offset
            for queue, offset in stats.offset_table.items()
        )
        state = "CONSUMED" if done else "NOT_CONSUME_YET"
        try:
            await admin.groups.connection(group)
        except ConsumerNotOnline:
            state = "NOT_ONLINE" if not done else state
        out.write(f"MessageTrack [consumerGroup={group}, trackType={state}, exceptionDesc=null]\n")


async def _by_key(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    records = await admin.messages.by_key(
        o.topic, o.msgKey, count=int(o.maxNum),
        begin_ms=int(o.beginTimestamp), end_ms=int(o.endTimestamp),
    )  # fmt: skip
    out.write(_KEYS.format("#Message ID", "#QID", "#Offset"))
    for record in sorted(records, key=lambda one: one.store_ms):
        name = record.unique_key or record.offset_message_id
        out.write(_KEYS.format(name, record.queue_id, record.queue_offset))


async def _by_offset(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> int:
    queue = MessageQueue(o.topic, o.brokerName, int(o.queueId))
    record = await admin.messages.in_queue(queue, int(o.offset))
    if record is None:
        return 1
    _show(out, record, offset_id=True)
    await _who(admin, out, record)
    return 0


async def _by_unique_key(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    if o.consumerGroup is not None and o.clientId is not None:
        await _consume_directly(admin, o, out)
        return
    records = await admin.messages.by_unique_key(o.topic, o.msgId)
    if not records:
        raise ClientError(f"no message with the unique key {o.msgId} in {o.topic}")
    for record in records:
        _show(out, record)
        out.write("\n")
        await _who(admin, out, record)


async def _consume_directly(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    records = await admin.messages.by_unique_key(o.topic, o.msgId)
    if not records:
        raise ClientError(f"no message with the unique key {o.msgId} in {o.topic}")
    found = await admin.groups.consume_directly(
        records[0].store_host, o.consumerGroup,
        client_id=o.clientId, topic=o.topic, message_id=records[0].offset_message_id,
    )  # fmt: skip
    out.write(
        f"ConsumeMessageDirectlyResult [order={str(found.order).lower()}, "
        f"autoCommit={str(found.auto_commit).lower()}, consumeResult={found.consume_result}, "
        f"remark={found.remark}, spentTimeMills={found.spent_time_mills}]\n"
    )


async def _print(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    for queue in sorted(await admin.topics.stats(o.topic)):
        await _print_queue(admin, o, queue, out)
        out.write("-" * 56 + "\n")


async def _print_queue(
    admin: AdminClient, o: argparse.Namespace, queue: MessageQueue, out: TextIO
) -> None:
    low, high = await admin.offsets.first(queue), await admin.offsets.end(queue)
    if o.beginTimestamp is not None:
        low = await admin.offsets.at_time(queue, moment_of(o.beginTimestamp))
    if o.endTimestamp is not None:
        high = await admin.offsets.at_time(queue, moment_of(o.endTimestamp))
    out.write(f"minOffset={low}, maxOffset={high}, {queue}\n")
    offset, expression = low, o.subExpression or "*"
    with_body = truth(o.printBody, default=True)
    while offset < high:
        records, answer = await admin.messages.pull(
            queue, offset, count=PAGE, expression=expression
        )
        for record in records:
            if record.queue_offset < high:
                out.write(message_line(record, queue.broker_name, body=with_body))
        if answer.next_begin_offset <= offset:
            return
        offset = answer.next_begin_offset


async def _print_by_queue(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    queue = MessageQueue(o.topic, o.brokerName, int(o.queueId))
    o.printBody = o.printMessage
    await _print_queue(admin, o, queue, out)


async def _consume(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    left, out_count = int(o.messageNumber), 0
    for queue in sorted(await admin.topics.stats(o.topic)):
        if o.brokerName not in (None, queue.broker_name):
            continue
        if o.queueId is not None and int(o.queueId) != queue.queue_id:
            continue
        offset = int(o.offset) if o.offset is not None else await admin.offsets.first(queue)
        records, _ = await admin.messages.pull(queue, offset, count=min(left, PAGE))
        if not out_count and records:
            out.write("Consume ok\n")
        for record in records:
            out.write(message_line(record, queue.broker_name))
        out_count += len(records)
        left -= len(records)
        if left <= 0:
            break


async def _send(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    message = Message(o.topic, o.body.encode(), tags=o.tags, keys=o.keys.split() if o.keys else ())
    queue = None
    if o.brokerName is not None and o.qid is not None:
        queue = MessageQueue(o.topic, o.brokerName, int(o.qid))
    settings = admin.settings
    async with Producer(
        "mqadmin-send", name_servers=admin.name_servers.addresses, client=settings
    ) as producer:
        receipt = await producer.send(message, queue=queue)
    out.write(_SENT.format("#Broker Name", "#QID", "#Send Result", "#MsgId"))
    place = receipt.queue
    out.write(
        _SENT.format(place.broker_name, place.queue_id, receipt.status.value, receipt.message_id)
    )


async def _send_rt(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    now, times = SystemClock().precise_s, []
    out.write(_SENT.format("#Broker Name", "#QID", "#Send Result", "#RT"))
    async with Producer(
        "mqadmin-send-rt", name_servers=admin.name_servers.addresses, client=admin.settings
    ) as producer:
        for _ in range(int(o.amount)):
            began = now()
            receipt = await producer.send(Message(o.topic, b"a" * int(o.size)))
            times.append((now() - began) * 1000)
            place = receipt.queue
            out.write(_SENT.format(place.broker_name, place.queue_id, "true", round(times[-1])))
    # The first send looks for the route; mqadmin leaves it out too.
    rest = times[1:] or times
    out.write(f"Avg RT: {sum(rest) / len(rest):.2f}\n")


async def _trace(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    from contrailmq.admin.trace_text import decode_trace

    records = await admin.messages.by_key(o.traceTopic, o.msgId)
    row = "{:<10} {:<20} {:<20} {:<20} {:<10} {:<10}\n"
    out.write(row.format("#Type", "#Group", "#ClientHost", "#Time", "#CostTimes", "#Status"))
    for record in records:
        for step in decode_trace(record.payload().decode("utf-8", "replace")):
            if step.message_id == o.msgId:
                kind = "Pub" if step.event == "sent" else "Sub"
                state = {True: "success", False: "failed", None: "unknown"}[step.success]
                moment = moment_text(step.timestamp_ms)[:19]
                out.write(
                    row.format(kind, step.group, record.born_host.partition(":")[0], moment,
                               f"{step.cost_ms or 0}ms", state)
                )  # fmt: skip


async def _queue(admin: AdminClient, o: argparse.Namespace, out: TextIO) -> None:
    address = o.broker
    if address is None:
        address = next(iter((await admin.masters_of(o.topic)).values()))
    found = await admin.messages.consume_queue(
        address, (o.topic, int(o.queue)), int(o.index), count=int(o.count), group=o.consumer
    )
    if found.subscription_data is not None:
        out.write(f"Subscription data: \n{found.subscription_data}\n")
        out.write("======================================\n")
    out.write(f"Queue data: \nmax: {found.max_queue_index}, min: {found.min_queue_index}\n")
    out.write("======================================\n")
    for place, entry in enumerate(found.queue_data or [], start=int(o.index)):
        out.write(
            f"idx: {place}\nConsumeQueueData{{physicOffset={entry.physic_offset}, "
            f"physicSize={entry.physic_size}, tagsCode={entry.tags_code}, "
            f"extendDataJson='{_null(entry.extend_data_json)}', bitMap='{_null(entry.bit_map)}', "
            f"eval={str(entry.eval).lower()}, msg='{_null(entry.msg)}'}}\n"
        )
        out.write("======================================\n")


def _null(value: object) -> object:
    return "null" if value is None else value


_SPAN: Final = (
    moment(
        may("b", "beginTimestamp", "begin timestamp [currentTimeMillis|yyyy-MM-dd#HH:mm:ss:SSS]")
    ),
    moment(may("e", "endTimestamp", "end timestamp")),
    may("s", "subExpression", "subscribe expression, e.g. TagA || TagB"),
    may("d", "printBody", "print body [true|false]"),
)
COMMANDS: Final = {
    "queryMsgById": AdminCommand(
        "Query Message by Id",
        (need("i", "msgId", "message id; commas separate several"), may("t", "topic", "topic")),
        _by_id,
    ),
    "queryMsgByKey": AdminCommand(
        "Query Message by Key",
        (_TOPIC, need("k", "msgKey", "message key"),
         integer(may("b", "beginTimestamp", "begin, milliseconds", "0")),
         integer(may("e", "endTimestamp", "end, milliseconds", str((1 << 63) - 1))),
         integer(may("m", "maxNum", "at most so many", "64"))),
        _by_key,
    ),
    "queryMsgByOffset": AdminCommand(
        "Query Message by offset",
        (_TOPIC, need("b", "brokerName", "broker name"), integer(need("i", "queueId", "queue id")),
         integer(need("o", "offset", "queue offset"))),
        _by_offset,
    ),
    "queryMsgByUniqueKey": AdminCommand(
        "Query Message by Unique key",
        (need("i", "msgId", "message id"), _TOPIC, may("g", "consumerGroup", "consumer group"),
         may("d", "clientId", "the consumer's client id")),
        _by_unique_key,
    ),
    "queryMsgTraceById": AdminCommand(
        "Query a message trace",
        (need("i", "msgId", "message id"), may("t", "traceTopic", "trace topic", TRACE_TOPIC)),
        _trace,
    ),
    "printMsg": AdminCommand("Print Message Detail", (_TOPIC, *_SPAN), _print),
    "printMsgByQueue": AdminCommand(
        "Print Message Detail by queueId",
        (_TOPIC, need("a", "brokerName", "broker name"), integer(need("i", "queueId", "queue id")),
         may("p", "printMessage", "print message [true|false]"), *_SPAN),
        _print_by_queue,
    ),
    "consumeMessage": AdminCommand(
        "Consume message",
        (_TOPIC, may("b", "brokerName", "broker name"), integer(may("i", "queueId", "queue id")),
         integer(may("o", "offset", "queue offset")),
         integer(may("c", "messageNumber", "how many", "128")),
         may("g", "consumerGroup", "not needed here")),
        _consume,
    ),
    "sendMessage": AdminCommand(
        "Send a message",
        (_TOPIC, need("p", "body", "UTF-8 string of the body"), may("k", "keys", "message keys"),
         may("c", "tags", "message tags"), may("b", "brokerName", "to this broker"),
         integer(may("i", "qid", "to this queue"))),
        _send,
    ),
    "checkMsgSendRT": AdminCommand(
        "Check message send response time",
        (_TOPIC, integer(may("a", "amount", "message amount", "100")),
         integer(may("s", "size", "bytes", "128"))),
        _send_rt,
    ),
    "queryCq": AdminCommand(
        "Query cq command.",
        (_TOPIC, integer(need("q", "queue", "queue num")),
         integer(need("i", "index", "start queue index")),
         integer(may("c", "count", "how many", "10")), may("b", "broker", "broker addr"),
         may("g", "consumer", "consumer group")),
        _queue,
    ),
}  # fmt: skip
