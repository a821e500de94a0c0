"""The producer: sending messages, one by one, in batches, as transactions and as requests.

``send`` returns when the broker has the message.  ``submit`` returns when the producer has it: it
waits for room (bytes and messages under way are bounded) and hands back a future.  ``flush`` waits
for everything accepted, ``aclose`` flushes first, so nothing that was accepted is dropped without
an error in somebody's hands.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Coroutine, Sequence
from ipaddress import ip_address
from types import TracebackType
from typing import Any

from contrailmq.client.crew import to_the_end
from contrailmq.client.message import Message, Receipt, ReceivedMessage
from contrailmq.client.names import producer_group, wrap
from contrailmq.client.producer.batching import Accumulator
from contrailmq.client.producer.budget import Budget
from contrailmq.client.producer.outgoing import Outgoing, Packer
from contrailmq.client.producer.queue_choice import Selector, by_key
from contrailmq.client.producer.quick_send import QuickSends, answers
from contrailmq.client.producer.reply import (
    Replies,
    as_reply,
    delivered,
    reply_properties,
    reply_to,
)
from contrailmq.client.producer.sender import Sender
from contrailmq.client.producer.trace import ProducerTrace
from contrailmq.client.producer.transaction import Check, Checker, Transaction
from contrailmq.client.session import Session
from contrailmq.client.settings import ClientSettings, ProducerSettings, World
from contrailmq.errors import ClientError, RequestTimeout
from contrailmq.net.dispatch import Handler
from contrailmq.protocol import properties as names
from contrailmq.protocol.bodies.heartbeat import HeartbeatData, ProducerData
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.send import RecallMessageRequest, RecallMessageResponse
from contrailmq.protocol.ids import UniqueIds
from contrailmq.protocol.queue import MessageQueue
from contrailmq.protocol.recall import read_handle

log = logging.getLogger(__name__)


class Producer:
    """Sends messages for one group.

    ``group`` names the application; brokers ask any producer of the group how a transaction
    ended.  ``check`` answers that.  Use it as ``async with Producer(...) as producer``.  With
    ``endpoints="host:8081"`` in place of name servers it speaks gRPC and needs no group.
    """

    def __init__(
        self,
        group: str = "",
        *,
        name_servers: str | Sequence[str] | None = None,
        endpoints: str | Sequence[str] | None = None,
        check: Check | None = None,
        settings: ProducerSettings | None = None,
        client: ClientSettings | None = None,
        world: World | None = None,
    ) -> None:
        group = producer_group(group, endpoints)
        self._settings = settings or ProducerSettings()
        self._world = world or World()
        client = client or ClientSettings()
        self.group = wrap(client.namespace, group)
        self._session = Session(
            f"producer {group}", name_servers=name_servers, endpoints=endpoints,
            settings=client, world=self._world,
        )  # fmt: skip
        self._budget = Budget(
            size_max=self._settings.in_flight_size_max, count_max=self._settings.in_flight_count_max
        )
        self._replies = Replies(clock=self._world.clock, rng=self._world.rng)
        self._checker = Checker(self._session, self.group, check)
        self._started = False
        self._closed = False

    async def __aenter__(self) -> Producer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        await self.aclose()

    async def start(self) -> None:
        """Begin; brokers are contacted when the first message needs them."""
        if self._started:
            raise ClientError(f"producer {self.group} was started before; make a new one")
        handlers: dict[int, Handler] = {
            RequestCode.CHECK_TRANSACTION_STATE: self._checker,
            RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: self._replies,
        }
        await self._session.start(handlers, beat=self._beat, lane=answers())
        self._started = True
        ids = UniqueIds(
            ip_address(self._session.client_ip).packed,
            clock=self._world.clock,
            pid=os.getpid(),
            rng=self._world.rng,
        )
        self._sender = Sender(self._session, self.group, self._settings)
        self._packer = Packer(
            self._settings,
            ids=ids,
            clock=self._world.clock,
            namespace=self._session.settings.namespace,
        )
        self._accumulator = Accumulator(
            self._sender,
            self._packer,
            self._settings,
            start=self._start_task,
            on_done=lambda count, size: self._budget.give(size, count),
        )
        self._session.routes.on_change = self._on_route
        self._trace = ProducerTrace(self._session, self.group, self._settings, ids=ids)
        self._trace.start()
        self._quick = QuickSends(
            self._session, self._sender, self._settings, ids=ids, budget=self._budget
        )
        self._quick.enabled &= not self._trace.enabled
        self._checker.on_end = self._trace.ended

    async def aclose(self) -> None:
        """Send what was accepted, within ``close_timeout_s``; then leave the group and close."""
        if self._started and not self._closed:
            await to_the_end(self._close())

    async def _close(self) -> None:
        try:
            async with asyncio.timeout(self._settings.close_timeout_s):
                await self.flush()
        except TimeoutError:
            log.error(
                "producer closed with messages under way group=%s count=%s bytes=%s",
                self.group, self._budget.count, self._budget.size,
            )  # fmt: skip
        finally:
            self._closed = True
            await self._trace.aclose()
            await self._session.aclose(producer_group=self.group)

    # -- sending

    async def send(
        self,
        message: Message,
        *,
        key: str | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_s: float | None = None,
    ) -> Receipt:
        """Send and return when the broker has it.

        Without more, queues take turns and another broker is tried after a failure.  Equal
        ``key`` means equal queue; ``queue`` or ``selector`` fix it, and then nothing is retried.
        ``timeout_s`` is for all tries together.
        """
        self._check_open()
        free = queue is None and selector is None
        if free:
            if key is None and self._settings.batch_size and self._accumulator.accepts(message):
                return await (await self.submit(message))
            sent = self._quick.begin(message, timeout_s, key)
            if sent is not None:
                return await self._quick.finish(sent, timeout_s, fixed=key is not None)
        outgoing = self._packer.pack(message)
        if key is not None:
            selector = _key_selector(key)
        elif free and not self._trace.enabled and self._budget.try_take(outgoing.size):
            try:
                return await self._sender.send_free(outgoing, timeout_s)
            finally:
                self._budget.give(outgoing.size)
        return await self._send(
            outgoing, message, queue=queue, selector=selector, timeout_s=timeout_s
        )

    async def send_batch(
        self, messages: Sequence[Message], *, timeout_s: float | None = None
    ) -> Receipt:
        """Send messages of one topic in one request, to one queue: all are stored, or none."""
        self._check_open()
        outgoing = self._packer.pack_batch(messages)
        return await self._send(outgoing, messages[0], timeout_s=timeout_s)

    async def send_oneway(
        self, message: Message, *, key: str | None = None, queue: MessageQueue | None = None
    ) -> None:
        """Hand the message to a connection and forget it; it may be lost without a sign."""
        self._check_open()
        outgoing = self._packer.pack(message)
        selector = _key_selector(key) if key is not None else None
        await self._sender.send_oneway(outgoing, queue=queue, selector=selector)

    async def submit(self, message: Message, *, key: str | None = None) -> asyncio.Future[Receipt]:
        """Accept the message, waiting for room if need be; the future is its receipt.

        A future whose error nobody fetches is logged: a message is never lost in silence.
        """
        self._check_open()
        if key is not None or not self._settings.batch_size:
            sent = self._quick.begin(message, None, key)
            if sent is not None:
                return self._quick.promise(sent, fixed=key is not None)
        size = len(message.body) + 512
        if not self._budget.try_take(size):
            await self._budget.take(size)
        try:
            if key is None and self._settings.batch_size and self._accumulator.accepts(message):
                return self._accumulator.add(message, size)
            outgoing = self._packer.pack(message)
            selector = _key_selector(key) if key is not None else None
            future: asyncio.Future[Receipt] = self._session.crew.spawn(
                self._traced(outgoing, message, selector=selector), name="send"
            )
        except BaseException:
            self._budget.give(size)
            raise
        future.add_done_callback(lambda done: self._submitted(done, size, message.topic))
        return future

    async def flush(self) -> None:
        """Wait until everything accepted so far is stored or has failed."""
        self._accumulator.flush()
        await self._budget.wait_idle()

    # -- transactions, requests, recall

    def transaction(self, message: Message) -> Transaction:
        """``async with producer.transaction(message) as tx``: visible only if the block succeeds.

        Leaving the block by an exception withdraws the message; ``tx.rollback()`` does too, and
        ``tx.unknown()`` leaves the decision to the check callback.
        """
        self._check_open()
        transaction = Transaction(
            message,
            group=self.group,
            session=self._session,
            sender=self._sender,
            packer=self._packer,
        )
        return self._checker.begun(transaction)

    async def request(self, message: Message, *, timeout_s: float = 3.0) -> ReceivedMessage:
        """Send a message and return the reply its consumer sends back."""
        self._check_open()
        correlation_id, future = self._replies.open()
        extra = {
            names.PROPERTY_CORRELATION_ID: correlation_id,
            names.PROPERTY_REPLY_TO_CLIENT: self._session.client_id,
            names.PROPERTY_TTL: str(int(timeout_s * 1000)),
        }
        try:
            async with asyncio.timeout(timeout_s):
                await self._sender.route(wrap(self._session.settings.namespace, message.topic))
                await self._session.introduce()  # a stranger is sent no reply
                await self._send(self._packer.pack(message, extra=extra), message)
                return await future
        except TimeoutError:
            raise RequestTimeout(
                f"no reply to the request on {message.topic!r} within {timeout_s:g} s; does a"
                " consumer of that topic answer with Producer.reply?"
            ) from None
        finally:
            self._replies.drop(correlation_id)

    async def reply(
        self, request: ReceivedMessage, body: bytes, *, properties: dict[str, str] | None = None
    ) -> Receipt | None:
        """Answer a request that was consumed. Returns None if its caller is gone.

        That is logged and no error: a handler that raised would get the request again and again.
        """
        self._check_open()
        message = reply_to(request, body, properties=properties or {})
        outgoing = self._packer.pack(message, extra=reply_properties(request))
        return await delivered(self._send(as_reply(outgoing), message), request)

    async def recall(self, receipt: Receipt) -> str:
        """Take back a delayed message that is not delivered yet; returns its id."""
        self._check_open()
        if receipt.recall_handle is None:
            raise ClientError(
                "the receipt has no recall handle: only messages with delay_s or deliver_at_ms"
                " have one, from brokers that support recall"
            )
        handle = read_handle(receipt.recall_handle)
        if handle is None:
            raise ClientError(
                f"{receipt.recall_handle!r} is not a recall handle; pass the receipt of the send"
            )
        header = RecallMessageRequest(
            producer_group=self.group,
            topic=handle.topic,
            recall_handle=receipt.recall_handle,
        )
        address = self._session.writer(receipt.queue.broker_name)
        answer = await self._session.ask(
            address, Command.request(RequestCode.RECALL_MESSAGE, header)
        )
        return RecallMessageResponse.from_fields(answer.fields).msg_id

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic a message can be sent to."""
        self._check_open()
        route = await self._sender.route(wrap(self._session.settings.namespace, topic))
        return list(route.queues)

    @property
    def client_id(self) -> str:
        """How brokers know this producer."""
        return self._session.client_id

    # -- inside

    async def _send(
        self,
        outgoing: Outgoing,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_s: float | None = None,
    ) -> Receipt:
        size = outgoing.size
        if not self._budget.try_take(size):
            await self._budget.take(size)
        try:
            return await self._traced(
                outgoing, message, queue=queue, selector=selector, timeout_s=timeout_s
            )
        finally:
            self._budget.give(size)

    def _traced(
        self,
        outgoing: Outgoing,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_s: float | None = None,
    ) -> Coroutine[Any, Any, Receipt]:
        sending = self._sender.send(outgoing, queue=queue, selector=selector, timeout_s=timeout_s)
        if not self._trace.enabled:
            return sending
        return self._trace.sent(sending, outgoing, message)

    def _submitted(self, done: asyncio.Future[Receipt], size: int, topic: str) -> None:
        self._budget.give(size)
        if not done.cancelled() and done.exception() is not None:
            log.error("message not sent topic=%s error=%s", topic, done.exception())

    def _start_task(self, work: Coroutine[Any, Any, None]) -> object:
        return self._session.crew.spawn(work, name="batch")

    def _on_route(self, topic: str) -> None:
        self._quick.forget()
        self._session.beat_soon()

    def _beat(self) -> HeartbeatData | None:
        return HeartbeatData(
            client_id=self._session.client_id,
            producer_data_set=[ProducerData(group_name=self.group)],
        )

    def _check_open(self) -> None:
        if not self._started:
            raise ClientError(
                f"producer {self.group} is not started; use `async with`, or await start()"
            )
        if self._closed:
            raise ClientError(f"producer {self.group} is closed; make a new one")
        self._session.crew.check()

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open" if self._started else "new"
        return f"<Producer {self.group} {state} in_flight={self._budget.count}>"


def _key_selector(key: str) -> Selector:
    return lambda queues: by_key(queues, key)
