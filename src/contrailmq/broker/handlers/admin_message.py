"""A look into queues, and half messages taken up again: request codes 321 and 323."""

from __future__ import annotations

import base64
from typing import Final

from contrailmq.broker.services.halves import HalfMessages
from contrailmq.broker.tables.consumers import ConsumerTable
from contrailmq.broker.tables.filter_file import stored_filter
from contrailmq.broker.tables.filters import ConsumerFilters, is_tag_type, tag_matcher
from contrailmq.errors import LocalProtocolError, RemoteProtocolError, SystemFailure
from contrailmq.net.connection import Connection
from contrailmq.protocol.bodies.heartbeat import SubscriptionData
from contrailmq.protocol.bodies.queues import ConsumeQueueData, QueryConsumeQueueResponse
from contrailmq.protocol.command import Command
from contrailmq.protocol.fastjson import dumps
from contrailmq.protocol.headers.query import QueryConsumeQueueRequest
from contrailmq.protocol.headers.transaction import ResumeCheckHalfMessageRequest
from contrailmq.protocol.ids import parse_offset_message_id
from contrailmq.protocol.names import HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from contrailmq.protocol.properties import PROPERTY_REAL_TOPIC, PROPERTY_TRANSACTION_CHECK_TIMES
from contrailmq.protocol.versions import V5_0_0
from contrailmq.store.consume_queue import ConsumeQueue, ConsumeQueues
from contrailmq.store.layout import QUEUE_EXT_UNIT
from contrailmq.store.queue_ext import is_address
from contrailmq.store.types import Matcher, QueueExt

ENTRIES_MAX: Final = 10_000


class QueryQueue:
    """Request code 321: raw entries of a queue, and what a connected group thinks of them."""

    def __init__(
        self, queues: ConsumeQueues, consumers: ConsumerTable, filters: ConsumerFilters
    ) -> None:
        self._queues = queues
        self._consumers = consumers
        self._filters = filters

    def __call__(self, request: Command, connection: Connection) -> Command:
        """Entries from an index on, as many as there are."""
        header = QueryConsumeQueueRequest.from_fields(request.fields)
        topic, queue_id = header.topic, header.queue_id
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            raise SystemFailure(f"{queue_id}@{topic} is not exist!")
        body = QueryConsumeQueueResponse(
            min_queue_index=queue.min_offset, max_queue_index=queue.max_offset
        )
        matcher: Matcher | None = None
        subscription: SubscriptionData | None = None
        if header.consumer_group:
            subscription = self._subscription(header.consumer_group, topic)
            body.subscription_data = subscription
            body.filter_data, matcher = self._filter(header.consumer_group, topic, subscription)
        if not queue.min_offset <= header.index < queue.max_offset:
            remark = f"Index {header.index} of {queue_id}@{topic} is not exist!"
            return request.reply(body=body.encode(), remark=remark)
        end = min(header.index + min(max(header.count, 0), ENTRIES_MAX), queue.max_offset)
        body.queue_data = [
            _entry(
                queue,
                offset,
                matcher,
                is_asked=subscription is not None,
                is_legacy=request.version < V5_0_0,
            )
            for offset in range(header.index, end)
        ]
        return request.reply(body=body.encode())

    def _subscription(self, group: str, topic: str) -> SubscriptionData | None:
        found = self._consumers.find(group)
        return None if found is None else found.subscriptions.get(topic)

    def _filter(
        self, group: str, topic: str, subscription: SubscriptionData | None
    ) -> tuple[str, Matcher | None]:
        if subscription is None:
            return f"{group}@{topic} is not online!", None
        if is_tag_type(subscription.expression_type):
            return "null", tag_matcher(subscription)
        entry = self._filters.find(group, topic)
        if entry is None:
            return "null", None
        stored = stored_filter(entry, bit_count=self._filters.bit_count)
        return stored.encode(pretty=True).decode(), entry.matcher


def _bits(bitmap: bytes) -> str:
    """The bits from the last to the first, a line for every 64 (BitsArray.toString)."""
    text = f"{int.from_bytes(bitmap, 'little'):0{len(bitmap) * 8}b}"
    head = len(text) % 64
    lines = [text[:head]] if head else []
    lines += [text[at : at + 64] for at in range(head, len(text), 64)]
    return "".join(f"{line}\n" for line in lines)


def _describe(entry: ConsumeQueueData, ext: QueueExt) -> None:
    """What the extension says of an entry (CqExtUnit)."""
    unit: dict[str, object] = {
        "msgStoreTime": ext.store_ms,
        "size": QUEUE_EXT_UNIT + len(ext.bitmap),
        "tagsCode": ext.tags_code,
    }
    if ext.bitmap:
        unit["filterBitMap"] = base64.b64encode(ext.bitmap).decode()
        entry.bit_map = _bits(ext.bitmap)
    entry.extend_data_json = dumps(dict(sorted(unit.items()))).decode()


def _entry(
    queue: ConsumeQueue, offset: int, matcher: Matcher | None, *, is_asked: bool, is_legacy: bool
) -> ConsumeQueueData:
    unit = queue.unit(offset)
    if unit is None:
        return ConsumeQueueData(msg="not there")
    log_offset, size, code = unit
    entry = ConsumeQueueData(physic_offset=log_offset, physic_size=size, tags_code=code)
    ext: QueueExt | None = None
    if is_address(code) and queue.ext is not None:
        ext = queue.ext.find(code)
        if ext is not None:
            _describe(entry, ext)
            code = ext.tags_code
            if not is_legacy:
                entry.tags_code = code  # 4.9 shows the address of the extension here
    if is_asked:
        entry.eval = matcher is None or (
            (matcher.tag_codes is None or code in matcher.tag_codes)
            and (ext is None or matcher.may_match(ext))
        )
    return entry


class ResumeHalf:
    """Request code 323: a half message that was given up is asked about again, from zero.

    Only half messages and given-up ones are taken: anything else would become a transaction
    nobody can end.
    """

    def __init__(self, halves: HalfMessages) -> None:
        self._halves = halves

    def __call__(self, request: Command, connection: Connection) -> Command:
        """Append it to the half queue again with no checks made."""
        message_id = ResumeCheckHalfMessageRequest.from_fields(request.fields).msg_id
        try:
            _, offset = parse_offset_message_id(message_id)
        except (LocalProtocolError, RemoteProtocolError, ValueError) as error:
            raise SystemFailure(f"msgId {message_id!r}: expected an offset id") from error
        half = self._halves.record(offset)
        if half is None:
            raise SystemFailure(f"can not find message by the offset, {offset}")
        if half.topic not in (HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC) or not half.properties.get(
            PROPERTY_REAL_TOPIC
        ):
            raise SystemFailure(f"the message at {offset} is not a half message: {half.topic}")
        half.properties[PROPERTY_TRANSACTION_CHECK_TIMES] = "0"
        self._halves.put_back(half)
        return request.reply()
