"""What a consumer tells the message trace: a record before and one after each consumption."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from ipaddress import ip_address
from os import getpid

from contrailmq.client.message import ReceivedMessage
from contrailmq.client.producer.sender import Sender
from contrailmq.client.session import Session
from contrailmq.client.settings import ProducerSettings
from contrailmq.client.trace import FAILED, SUCCESS, Consumed, Consuming, Tracer
from contrailmq.protocol import properties as names
from contrailmq.protocol.ids import UniqueIds

_CLOSE_TIMEOUT_S = 3.0


class ConsumerTrace:
    """Records of one consumer; made only when a trace topic is set, after the session started."""

    def __init__(self, session: Session, group: str, topic: str) -> None:
        self._session = session
        self._group = group
        self._clock = session.world.clock
        ids = UniqueIds(
            ip_address(session.client_ip).packed,
            clock=self._clock,
            pid=getpid(),
            rng=session.world.rng,
        )
        sender = Sender(
            session,
            f"_INNER_TRACE_PRODUCER-{group}-CONSUME-1",
            ProducerSettings(send_timeout_s=5.0),
        )
        self._tracer = Tracer(sender, topic, ids=ids)

    def start(self) -> None:
        """Begin to send records."""
        self._session.crew.start(self._tracer.run(), name="trace")

    async def aclose(self) -> None:
        """Send the records that wait."""
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await self._tracer.flush()
        except TimeoutError:
            return

    def begin(self, messages: Sequence[ReceivedMessage]) -> None:
        """Messages are handed to the user."""
        request_id = self._tracer.request_id()
        now_ms = self._clock.now_ms()
        for message in messages:
            message.started_ms = now_ms
            message.trace_id = request_id
            self._tracer.note(
                Consuming(
                    timestamp_ms=now_ms,
                    region=message.properties.get(names.PROPERTY_MSG_REGION, "DefaultRegion"),
                    group=self._group,
                    request_id=request_id,
                    message_id=message.message_id,
                    retries=message.reconsume_times,
                    keys=message.properties.get(names.PROPERTY_KEYS, ""),
                )
            )

    def end(self, messages: Sequence[ReceivedMessage]) -> None:
        """The user is done with them; one that asked for a retry has failed."""
        now_ms = self._clock.now_ms()
        for message in messages:
            self._tracer.note(
                Consumed(
                    request_id=message.trace_id,
                    message_id=message.message_id,
                    cost_ms=now_ms - message.started_ms,
                    success=not message.retry_asked,
                    keys=message.properties.get(names.PROPERTY_KEYS, ""),
                    outcome=FAILED if message.retry_asked else SUCCESS,
                    timestamp_ms=now_ms,
                    group=self._group,
                )
            )
