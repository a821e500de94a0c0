"""The producer for callers that wait: a thin bridge, not a second implementation.

Each object runs its asynchronous twin on a loop in a thread of its own, or on a ``LoopThread``
given as ``loop`` that several share.  Arguments are those of the asynchronous classes.  Objects
may be used from several threads, not across a fork.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from contrailmq.client.loop_thread import Bridge, LoopThread
from contrailmq.client.message import Message, Receipt, ReceivedMessage
from contrailmq.client.producer import producer as asynchronous
from contrailmq.client.producer import transaction as transactions
from contrailmq.client.producer.queue_choice import Selector
from contrailmq.client.producer.transaction import TransactionState, Verdict
from contrailmq.client.settings import ClientSettings, ProducerSettings
from contrailmq.protocol.queue import MessageQueue


class Producer(Bridge):
    """Sends messages for one group; ``with Producer(...) as producer``."""

    def __init__(
        self,
        group: str = "",
        *,
        name_servers: str | Sequence[str] | None = None,
        endpoints: str | Sequence[str] | None = None,
        check: Callable[[ReceivedMessage], Verdict] | None = None,
        settings: ProducerSettings | None = None,
        client: ClientSettings | None = None,
        loop: LoopThread | None = None,
    ) -> None:
        super().__init__(loop)
        self._twin = self._make(
            lambda: asynchronous.Producer(
                group,
                name_servers=name_servers,
                endpoints=endpoints,
                check=_in_a_thread(check),
                settings=settings,
                client=client,
            )
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Begin."""
        self._call(self._twin.start)

    def close(self) -> None:
        """Send what was accepted, then leave the group and close."""
        try:
            self._call(self._twin.aclose)
        finally:
            self._release()

    def send(
        self,
        message: Message,
        *,
        key: str | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_s: float | None = None,
    ) -> Receipt:
        """Send and return when the broker has it."""
        return self._call(
            lambda: self._twin.send(
                message, key=key, queue=queue, selector=selector, timeout_s=timeout_s
            )
        )

    def send_batch(self, messages: Sequence[Message], *, timeout_s: float | None = None) -> Receipt:
        """Send messages of one topic in one request."""
        return self._call(lambda: self._twin.send_batch(messages, timeout_s=timeout_s))

    def send_oneway(
        self, message: Message, *, key: str | None = None, queue: MessageQueue | None = None
    ) -> None:
        """Hand the message to a connection and forget it."""
        self._call(lambda: self._twin.send_oneway(message, key=key, queue=queue))

    def submit(
        self, message: Message, *, key: str | None = None
    ) -> concurrent.futures.Future[Receipt]:
        """Accept the message, waiting for room; the future is its receipt."""
        result: concurrent.futures.Future[Receipt] = concurrent.futures.Future()

        async def accept() -> None:
            future = await self._twin.submit(message, key=key)
            future.add_done_callback(lambda done: _copy(done, result))

        self._call(accept)
        return result

    def flush(self) -> None:
        """Wait until everything accepted so far is stored or has failed."""
        self._call(self._twin.flush)

    def transaction(self, message: Message) -> Transaction:
        """``with producer.transaction(message) as tx``: visible only if the block succeeds."""
        return Transaction(self._thread, self._twin.transaction(message))

    def request(self, message: Message, *, timeout_s: float = 3.0) -> ReceivedMessage:
        """Send a message and return the reply its consumer sends back."""
        return self._call(lambda: self._twin.request(message, timeout_s=timeout_s))

    def reply(
        self, request: ReceivedMessage, body: bytes, *, properties: dict[str, str] | None = None
    ) -> Receipt | None:
        """Answer a request that was consumed. Returns None if its caller is gone."""
        return self._call(lambda: self._twin.reply(request, body, properties=properties))

    def recall(self, receipt: Receipt) -> str:
        """Take back a delayed message that is not delivered yet."""
        return self._call(lambda: self._twin.recall(receipt))

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic a message can be sent to."""
        return self._call(lambda: self._twin.queues(topic))


class Transaction:
    """A half message and its end; made by ``Producer.transaction``."""

    def __init__(self, thread: LoopThread, twin: transactions.Transaction) -> None:
        self._thread = thread
        self._twin = twin

    def __repr__(self) -> str:
        return repr(self._twin)

    def __enter__(self) -> Self:
        self._thread.call(self._twin.__aenter__)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._thread.call(lambda: self._twin.__aexit__(kind, error, trace))

    @property
    def receipt(self) -> Receipt:
        """Where the half message is."""
        return self._twin.receipt

    @property
    def transaction_id(self) -> str:
        """The id under which a check will ask for it."""
        return self._twin.transaction_id

    def decide(self, state: TransactionState) -> None:
        """How it ends when the block does."""
        {
            TransactionState.COMMIT: self._twin.commit,
            TransactionState.ROLLBACK: self._twin.rollback,
            TransactionState.UNKNOWN: self._twin.unknown,
        }[state]()

    def rollback(self) -> None:
        """Withdraw the message when the block ends."""
        self._twin.rollback()


def _copy(done: Any, result: concurrent.futures.Future[Receipt]) -> None:
    if done.cancelled():
        result.cancel()
    elif done.exception() is not None:
        result.set_exception(done.exception())
    else:
        result.set_result(done.result())


def _in_a_thread(check: Callable[[ReceivedMessage], Verdict] | None) -> transactions.Check | None:
    if check is None:
        return None
    called: Callable[[ReceivedMessage], Verdict] = check

    async def ask(message: ReceivedMessage) -> Verdict:
        return await asyncio.to_thread(called, message)

    return ask
