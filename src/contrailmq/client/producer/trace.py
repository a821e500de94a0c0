"""What a producer tells the message trace; nothing at all when tracing is off."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Coroutine
from typing import Any

from contrailmq.client.message import Message, Receipt, ReceivedMessage
from contrailmq.client.producer.outgoing import Outgoing
from contrailmq.client.producer.sender import Sender
from contrailmq.client.producer.transaction import TransactionState
from contrailmq.client.session import Session
from contrailmq.client.settings import ProducerSettings
from contrailmq.client.trace import EndedTransaction, Published, Tracer
from contrailmq.protocol import properties as names
from contrailmq.protocol.ids import UniqueIds
from contrailmq.protocol.sysflag import TRANSACTION_PREPARED

_NORMAL, _HALF, _DELAYED = 0, 1, 3
_CLOSE_TIMEOUT_S = 3.0


class ProducerTrace:
    """Records of sends and of ends of transactions."""

    def __init__(
        self, session: Session, group: str, settings: ProducerSettings, *, ids: UniqueIds
    ) -> None:
        self._session = session
        self._group = group
        self._clock = session.world.clock
        self._topic = settings.trace_topic
        self._tracer: Tracer | None = None
        if settings.trace_topic is not None:
            plain = dataclasses.replace(settings, trace_topic=None, send_timeout_s=5.0)
            inner_group = f"_INNER_TRACE_PRODUCER-{group}-PRODUCE-1"
            sender = Sender(session, inner_group, plain)
            self._tracer = Tracer(sender, settings.trace_topic, ids=ids)

    @property
    def enabled(self) -> bool:
        """Whether anything is recorded."""
        return self._tracer is not None

    def start(self) -> None:
        """Begin to send records."""
        if self._tracer is not None:
            self._session.crew.start(self._tracer.run(), name="trace")

    async def aclose(self) -> None:
        """Send the records that wait."""
        if self._tracer is not None:
            try:
                async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                    await self._tracer.flush()
            except TimeoutError:
                pass

    async def sent(
        self, sending: Coroutine[Any, Any, Receipt], outgoing: Outgoing, message: Message
    ) -> Receipt:
        """Run a send and record how it went."""
        begun_ms = self._clock.monotonic_ms()
        receipt: Receipt | None = None
        try:
            receipt = await sending
            return receipt
        finally:
            self._note(outgoing, message, receipt, self._clock.monotonic_ms() - begun_ms)

    def ended(
        self,
        message: ReceivedMessage | Message,
        receipt: Receipt | None,
        state: TransactionState,
        from_check: bool,
    ) -> None:
        """Record the end of a transaction."""
        if self._tracer is None:
            return
        if isinstance(message, ReceivedMessage):
            message_id, store_host = message.message_id, message.store_host
        else:
            assert receipt is not None
            message_id, store_host = receipt.message_id, self._host_of(receipt)
        self._tracer.note(
            EndedTransaction(
                timestamp_ms=self._clock.now_ms(),
                region=receipt.region if receipt is not None else "DefaultRegion",
                group=self._group,
                topic=message.topic,
                message_id=message_id,
                tags=message.tags or "",
                keys=names.join_keys(message.keys),
                store_host=store_host,
                transaction_id=message_id,
                state=_STATE_NAMES[state],
                from_check=from_check,
            )
        )

    def _note(
        self, outgoing: Outgoing, message: Message, receipt: Receipt | None, cost_ms: int
    ) -> None:
        assert self._tracer is not None
        kind = _HALF if outgoing.sys_flag & TRANSACTION_PREPARED else _NORMAL
        self._tracer.note(
            Published(
                timestamp_ms=self._clock.now_ms() - cost_ms,
                region=receipt.region if receipt is not None else "DefaultRegion",
                group=self._group,
                topic=message.topic,
                message_id=outgoing.message_id,
                tags=message.tags or "",
                keys=names.join_keys(message.keys),
                store_host=self._host_of(receipt) if receipt is not None else "",
                body_size=len(message.body),
                cost_ms=cost_ms,
                kind=_DELAYED if message.is_delayed else kind,
                offset_message_id=receipt.offset_message_id if receipt is not None else "",
                success=receipt is not None,
            )
        )

    def _host_of(self, receipt: Receipt) -> str:
        return self._session.routes.find_master(receipt.queue.broker_name) or ""


_STATE_NAMES = {
    TransactionState.COMMIT: "COMMIT_MESSAGE",
    TransactionState.ROLLBACK: "ROLLBACK_MESSAGE",
    TransactionState.UNKNOWN: "UNKNOW",
}
