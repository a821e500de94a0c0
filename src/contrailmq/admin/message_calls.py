"""Calls that look at messages: by id, by key, by place in a queue."""

from __future__ import annotations

from typing import Final

from contrailmq.admin.caller import AdminCaller
from contrailmq.errors import ClientError, QueryNotFound
from contrailmq.protocol.bodies.queues import QueryConsumeQueueResponse
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.pull import (
    SUBSCRIPTION_FLAG,
    PullMessageRequest,
    PullMessageResponse,
)
from contrailmq.protocol.headers.query import (
    QueryConsumeQueueRequest,
    QueryMessageRequest,
    ViewMessageRequest,
)
from contrailmq.protocol.hosts import host_text
from contrailmq.protocol.ids import parse_offset_message_id
from contrailmq.protocol.message import Record, decode_record, decode_records
from contrailmq.protocol.names import TOOLS_GROUP
from contrailmq.protocol.queue import MessageQueue

FOREVER_MS: Final = (1 << 63) - 1
UNIQUE_KEY_COUNT: Final = 32
_QUERY_S: Final = 15.0


class MessageCalls:
    """Calls that return messages as ``Record`` values."""

    def __init__(self, caller: AdminCaller) -> None:
        self._caller = caller

    async def view(self, message_id: str, *, topic: str | None = None) -> Record:
        """The message of an offset id; the id names its broker."""
        try:
            host, offset = parse_offset_message_id(message_id)
            address = host_text(host)
        except Exception as error:
            raise ClientError(
                f"{message_id!r} is not an offset id (32 or 56 hexadecimal digits)"
            ) from error
        await self._check_registered(address)
        return await self.at(address, offset, topic=topic)

    async def _check_registered(self, address: str) -> None:
        """Refuse an address that is no broker's: whoever made the id chose it."""
        brokers = (await self._caller.cluster_info()).broker_addr_table.values()
        known = {known for broker in brokers for known in broker.broker_addrs.values()}
        if address not in known:
            raise ClientError(
                f"the message id names {address}, where no broker is registered:"
                f" registered are {', '.join(sorted(known)) or 'none'}"
            )

    async def at(self, address: str, offset: int, *, topic: str | None = None) -> Record:
        """The message at an offset of a broker's log."""
        header = ViewMessageRequest(topic=topic, offset=offset)
        answer = await self._caller.ask(address, RequestCode.VIEW_MESSAGE_BY_ID, header)
        return decode_record(answer.body)

    async def by_key(
        self, topic: str, key: str, *, count: int = 64, begin_ms: int = 0, end_ms: int = FOREVER_MS
    ) -> list[Record]:
        """Messages of a topic with a key, from all its brokers, newest first."""
        records = await self._query(
            QueryMessageRequest(
                topic=topic,
                key=key,
                max_num=count,
                begin_timestamp=begin_ms,
                end_timestamp=end_ms,
                unique_key_query=False,
            )
        )
        found = [record for record in records if key in record.keys]
        return sorted(found, key=lambda record: record.store_ms, reverse=True)[:count]

    async def by_unique_key(self, topic: str, unique_key: str) -> list[Record]:
        """Messages with a unique key: one, or more if its producer tried again."""
        records = await self._query(
            QueryMessageRequest(
                topic=topic,
                key=unique_key,
                max_num=UNIQUE_KEY_COUNT,
                begin_timestamp=0,
                end_timestamp=FOREVER_MS,
                unique_key_query=True,
            )
        )
        return [record for record in records if record.unique_key == unique_key]

    async def _query(self, header: QueryMessageRequest) -> list[Record]:
        records: list[Record] = []
        for address in (await self._caller.masters_of(header.topic)).values():
            try:
                code = RequestCode.QUERY_MESSAGE
                answer = await self._caller.ask(address, code, header, timeout_s=_QUERY_S)
            except QueryNotFound:
                continue
            records += decode_records(answer.body)
        return records

    async def pull(
        self, queue: MessageQueue, offset: int, *,
        count: int = 32, expression: str = "*", kind: str = "TAG", address: str | None = None,
    ) -> tuple[list[Record], PullMessageResponse]:  # fmt: skip
        """Messages of a queue from an offset on, and where to go on; does not wait for any.

        ``kind`` is TAG or SQL92; an ``address`` saves asking where the broker is.
        """
        header = PullMessageRequest(
            consumer_group=TOOLS_GROUP,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=count,
            sys_flag=SUBSCRIPTION_FLAG,
            subscription=expression,
            expression_type=kind,
        )
        target = address or await self._caller.address_of(queue.broker_name)
        request = Command.request(RequestCode.PULL_MESSAGE, header)
        answer = await self._caller.call(target, request, timeout_s=_QUERY_S)
        if answer.code not in (0, 19, 20, 21):
            self._caller.check(answer)
        records = decode_records(answer.body) if answer.code == 0 else []
        return records, PullMessageResponse.from_fields(answer.fields)

    async def in_queue(self, queue: MessageQueue, offset: int) -> Record | None:
        """The message at an offset of a queue, or None."""
        records, _ = await self.pull(queue, offset, count=1)
        return records[0] if records and records[0].queue_offset == offset else None

    async def consume_queue(
        self, address: str, queue: tuple[str, int], index: int, *,
        count: int = 10, group: str | None = None,
    ) -> QueryConsumeQueueResponse:  # fmt: skip
        """Raw entries of a consume queue (topic, queue id); with a group, what its filter says."""
        header = QueryConsumeQueueRequest(
            topic=queue[0], queue_id=queue[1], index=index, count=count, consumer_group=group
        )
        answer = await self._caller.ask(address, RequestCode.QUERY_CONSUME_QUEUE, header)
        return QueryConsumeQueueResponse.decode(answer.body)
