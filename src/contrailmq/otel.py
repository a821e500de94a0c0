"""OpenTelemetry for producers and consumers: spans, context in messages, metrics.

Nothing of the client changes and nothing is paid without it: a program wraps its producer and its
handlers.  ``traceparent`` and ``tracestate`` travel as properties of the message, as W3C names
them, so that clients of other languages which do the same go on with the trace.

    telemetry = Telemetry()
    async with telemetry.producer(Producer("orders", name_servers=...)) as producer:
        await producer.send(Message("orders", body=b"..."))
    PushConsumer("billing", topics=..., handler=telemetry.handler(handle, group="billing"))

Needs ``pip install 'contrailmq[otel]'``.  Names follow the messaging semantic conventions.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from contrailmq.client.message import Message, Receipt, ReceivedMessage
from contrailmq.client.producer.producer import Producer
from contrailmq.client.producer.transaction import Transaction
from contrailmq.clock import Clock, SystemClock
from contrailmq.errors import ClientError
from contrailmq.version import VERSION

NAME: Final = "contrailmq"
SYSTEM: Final = "rocketmq"
MISSING: Final = "OpenTelemetry is not installed; install it with: pip install 'contrailmq[otel]'"
Handler = Callable[[ReceivedMessage], Awaitable[None] | None]


class Telemetry:
    """Tracer and instruments; the global providers unless others are given."""

    def __init__(
        self, *, tracer_provider: Any = None, meter_provider: Any = None,
        clock: Clock | None = None,
    ) -> None:  # fmt: skip
        try:
            from opentelemetry import metrics, propagate, trace
        except ImportError as error:
            raise ClientError(MISSING) from error
        self._trace = trace
        self._propagate = propagate
        self._clock = clock or SystemClock()
        self._tracer = trace.get_tracer(NAME, VERSION, tracer_provider=tracer_provider)
        meter = metrics.get_meter(NAME, VERSION, meter_provider=meter_provider)
        self._sent = meter.create_counter(
            "messaging.client.sent.messages", unit="{message}", description="Messages sent."
        )
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages", unit="{message}",
            description="Messages given to the program.",
        )  # fmt: skip
        self._operation = meter.create_histogram(
            "messaging.client.operation.duration", unit="s", description="How long sends took."
        )
        self._process = meter.create_histogram(
            "messaging.process.duration", unit="s", description="How long handlers took."
        )

    def producer(self, producer: Producer) -> TracedProducer:
        """The same producer, with a span per send."""
        return TracedProducer(producer, self)

    def handler(self, handler: Handler, *, group: str = "") -> Handler:
        """The same handler, with a span per message that goes on with the producer's trace."""

        async def traced(message: ReceivedMessage) -> None:
            with self.processing(message, group=group):
                result = handler(message)
                if inspect.isawaitable(result):
                    await result

        return traced

    @contextmanager
    def sending(self, message: Message, *, group: str = "", count: int = 1) -> Iterator[Sending]:
        """A span around a send, of any client; send ``.message`` and call ``.sent(receipt)``."""
        attributes = _attributes(message, "send", body_size=len(message.body))
        if group:
            attributes["messaging.rocketmq.client_group"] = group
        if count > 1:
            attributes["messaging.batch.message_count"] = count
        common = _common(message.topic, "send")
        began_ms = self._clock.monotonic_ms()
        try:
            with self._tracer.start_as_current_span(
                f"send {message.topic}", kind=self._trace.SpanKind.PRODUCER, attributes=attributes
            ) as span:
                yield Sending(self.carrying(message), span)
        except BaseException as error:
            common["error.type"] = type(error).__name__
            raise
        finally:
            self._operation.record((self._clock.monotonic_ms() - began_ms) / 1000, common)
            self._sent.add(count, common)

    def carrying(self, message: Message) -> Message:
        """The message with the current context among its properties."""
        carrier: dict[str, str] = {}
        self._propagate.inject(carrier)
        if not carrier:
            return message
        carrying = copy.copy(message)  # the caller may send its own again
        carrying.properties = {**message.properties, **carrier}
        return carrying

    @contextmanager
    def processing(self, message: ReceivedMessage, *, group: str = "") -> Iterator[Any]:
        """A span around what a program does with a message; a child of the one that sent it."""
        context = self._propagate.extract(message.properties)
        attributes = _attributes(message, "process", body_size=len(message.body))
        attributes["messaging.message.id"] = message.message_id
        if group:
            attributes["messaging.consumer.group.name"] = group
        sender = self._trace.get_current_span(context).get_span_context()
        links = [self._trace.Link(sender)] if sender.is_valid else []
        common = _common(message.topic, "process")
        began_ms = self._clock.monotonic_ms()
        try:
            with self._tracer.start_as_current_span(
                f"process {message.topic}", context=context, links=links,
                kind=self._trace.SpanKind.CONSUMER, attributes=attributes,
            ) as span:  # fmt: skip
                yield span
        except BaseException as error:
            common["error.type"] = type(error).__name__
            raise
        finally:
            self._process.record((self._clock.monotonic_ms() - began_ms) / 1000, common)
            self._consumed.add(1, common)


@dataclasses.dataclass(slots=True)
class Sending:
    """A send under way: the message that carries the context, and its span."""

    message: Message
    span: Any

    def sent(self, receipt: Receipt) -> Receipt:
        """Note what became of it."""
        self.span.set_attribute("messaging.message.id", receipt.message_id)
        self.span.set_attribute("messaging.destination.partition.id", str(receipt.queue.queue_id))
        self.span.set_attribute("server.address", receipt.queue.broker_name)
        return receipt


class TracedProducer:
    """A producer whose sends have spans; everything else is the producer's own."""

    def __init__(self, producer: Producer, telemetry: Telemetry) -> None:
        self._producer = producer
        self._telemetry = telemetry

    async def __aenter__(self) -> TracedProducer:
        await self._producer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._producer.aclose()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    async def send(self, message: Message, **more: Any) -> Receipt:
        """``Producer.send`` within a span."""
        with self._telemetry.sending(message, group=self._producer.group) as sending:
            return sending.sent(await self._producer.send(sending.message, **more))

    async def send_oneway(self, message: Message, **more: Any) -> None:
        """``Producer.send_oneway`` within a span."""
        with self._telemetry.sending(message, group=self._producer.group) as sending:
            await self._producer.send_oneway(sending.message, **more)

    async def send_batch(self, messages: Sequence[Message], **more: Any) -> Receipt:
        """``Producer.send_batch`` within one span that all messages carry."""
        if not messages:
            return await self._producer.send_batch(messages, **more)
        group, count = self._producer.group, len(messages)
        with self._telemetry.sending(messages[0], group=group, count=count) as sending:
            carrying = [self._telemetry.carrying(message) for message in messages]
            return sending.sent(await self._producer.send_batch(carrying, **more))

    def transaction(self, message: Message) -> Transaction:
        """``Producer.transaction``; the message carries the context of the caller."""
        return self._producer.transaction(self._telemetry.carrying(message))


def _common(topic: str, operation: str) -> dict[str, Any]:
    return {
        "messaging.system": SYSTEM,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": topic,
    }


def _attributes(message: Any, operation: str, *, body_size: int) -> dict[str, Any]:
    found = _common(message.topic, operation)
    found["messaging.message.body.size"] = body_size
    if message.tags:
        found["messaging.rocketmq.message.tag"] = message.tags
    keys = message.keys
    if keys:
        found["messaging.rocketmq.message.keys"] = (
            keys.split() if isinstance(keys, str) else list(keys)
        )
    return found
