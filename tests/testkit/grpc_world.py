"""The gRPC calls of a broker without a transport: calls are made by hand, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from contrailmq.broker.app import Broker
from contrailmq.broker.grpc.door import build_service
from contrailmq.broker.grpc.settings import GrpcSettings
from contrailmq.grpc import messages as m
from contrailmq.grpc.call import CallGone, Streaming, Unary
from contrailmq.grpc.calls_route import Places
from contrailmq.grpc.messages_settings import (
    ClientType,
    Publishing,
    Settings,
    Subscription,
    SubscriptionEntry,
    TelemetryCommand,
)
from contrailmq.grpc.protobuf import codec_of
from contrailmq.grpc.service import PATH, Service
from contrailmq.protocol.bodies.group import SubscriptionGroupConfig
from contrailmq.protocol.bodies.topic import TopicConfig
from contrailmq.testing.sim import SimClock

R = TypeVar("R", bound=m.Message)
ASKED = m.Endpoints(1, [m.Address("10.0.0.1", 18081)])


class BareCall:
    """A call whose messages are given and taken by a test."""

    def __init__(self, method: str, *, client: str, timeout_s: float | None, version: str) -> None:
        self.method = PATH + method
        self.metadata = {"x-mq-client-id": client, "x-mq-client-version": version}
        self.peer = "10.0.2.9:40000"
        self.local = "10.0.0.1:8081"
        self.is_tls = False
        now = asyncio.get_running_loop().time()
        self.deadline = None if timeout_s is None else now + timeout_s
        self.is_gone = False
        self.requests: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.answers: asyncio.Queue[bytes] = asyncio.Queue()
        self._callbacks: list[Callable[[], None]] = []

    async def read(self) -> bytes | None:
        return await self.requests.get()

    async def write(self, message: bytes) -> None:
        if self.is_gone:
            raise CallGone("gone")
        self.answers.put_nowait(message)

    def on_gone(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)


class Telemetry:
    """An open telemetry stream."""

    def __init__(self, call: BareCall, task: asyncio.Task[None]) -> None:
        self.call = call
        self.task = task

    def say(self, command: TelemetryCommand) -> None:
        self.call.requests.put_nowait(codec_of(TelemetryCommand).encode(command))

    async def hear(self) -> TelemetryCommand:
        async with asyncio.timeout(100):
            return codec_of(TelemetryCommand).decode(await self.call.answers.get())

    async def close(self) -> None:
        self.call.requests.put_nowait(None)
        await self.task


class Door:
    """A broker's gRPC service as one client sees it."""

    def __init__(
        self, broker: Broker, *, client: str = "c1", service: Service | None = None
    ) -> None:
        parts = broker.parts
        self.broker = broker
        if service is None:
            service = build_service(parts, GrpcSettings(), access=None, places=Places())
        self.service = service
        self.client = client
        self.methods = self.service.methods()

    def topic(self, name: str, kind: str = "", *, queues: int = 4, perm: int = 6) -> None:
        attributes = {"message.type": kind} if kind else {}
        self.broker.parts.tables.topics.put(
            TopicConfig(
                topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm,
                attributes=attributes,
            )
        )  # fmt: skip

    def group(self, name: str, **more: Any) -> None:
        self.broker.parts.tables.groups.put(SubscriptionGroupConfig(group_name=name, **more))

    def make(
        self, method: str, *, client: str | None = None, timeout_s: float | None = 5.0,
        version: str = "5.2.0",
    ) -> BareCall:  # fmt: skip
        client = self.client if client is None else client
        return BareCall(method, client=client, timeout_s=timeout_s, version=version)

    async def call(self, method: str, request: m.Message, answer: type[R], **more: Any) -> R:
        served = self.methods[PATH + method]
        assert isinstance(served, Unary)
        found = served.handler(self.make(method, **more), codec_of(type(request)).encode(request))
        data = found if isinstance(found, bytes) else await found
        return codec_of(answer).decode(data)

    def start(self, call: BareCall, request: m.Message | None = None) -> asyncio.Task[None]:
        served = self.methods[call.method]
        assert isinstance(served, Streaming)
        if request is not None:
            call.requests.put_nowait(codec_of(type(request)).encode(request))
        return asyncio.ensure_future(served.handler(call))  # type: ignore[arg-type]

    async def telemetry(self, settings: Settings, **more: Any) -> tuple[Telemetry, Settings]:
        call = self.make("Telemetry", timeout_s=None, **more)
        stream = Telemetry(call, self.start(call))
        stream.say(TelemetryCommand(settings=settings))
        heard = asyncio.ensure_future(stream.hear())
        await asyncio.wait([heard, stream.task], return_when=asyncio.FIRST_COMPLETED)
        if stream.task.done():
            heard.cancel()
            stream.task.result()
        answer = await heard
        assert answer.status is not None and answer.status.code == 20000
        assert answer.settings is not None
        return stream, answer.settings

    async def send(self, *messages: m.WireMessage, **more: Any) -> m.SendMessageResponse:
        request = m.SendMessageRequest(list(messages))
        return await self.call("SendMessage", request, m.SendMessageResponse, **more)

    async def receive(
        self, topic: str, group: str = "g", *, timeout_s: float | None = 30.0, **more: Any
    ) -> tuple[int, list[m.WireMessage]]:
        request = receiving(topic, group, **more)
        call = self.make("ReceiveMessage", timeout_s=timeout_s)
        await self.start(call, request)
        return answers(call)

    async def ack(self, message: m.WireMessage, group: str = "g") -> int:
        request = m.AckMessageRequest(m.Resource(name=group), message.topic, [entry(message)])
        answer = await self.call("AckMessage", request, m.AckMessageResponse)
        assert answer.status is not None
        return answer.status.code


def answers(call: BareCall) -> tuple[int, list[m.WireMessage]]:
    """The code and the messages of an answered receive."""
    codec = codec_of(m.ReceiveMessageResponse)
    found = [codec.decode(call.answers.get_nowait()) for _ in range(call.answers.qsize())]
    assert found[0].status is not None
    assert found[-1].delivery_timestamp is not None, "the time of delivery is last"
    messages = [each.message for each in found[1:-1] if each.message is not None]
    assert len(messages) == len(found) - 2
    return found[0].status.code, messages


def entry(message: m.WireMessage) -> m.AckMessageEntry:
    """What settles a message."""
    system = system_of(message)
    return m.AckMessageEntry(system.message_id, system.receipt_handle or "")


def system_of(message: m.WireMessage) -> m.SystemProperties:
    """A message's system properties."""
    assert message.system_properties is not None
    return message.system_properties


def message(topic: str, body: bytes = b"x", **system: Any) -> m.WireMessage:
    """A message as SDKs send it; ``user`` are the user's properties."""
    user, message_id = system.pop("user", {}), system.pop("id", "01AB")
    fields = {
        "message_id": message_id, "body_encoding": 1, "message_type": 1,
        "born_timestamp": m.Moment.of_ms(SimClock().now_ms()), **system,
    }  # fmt: skip
    return m.WireMessage(m.Resource(name=topic), user, m.SystemProperties(**fields), body)


def receiving(topic: str, group: str = "g", **more: Any) -> m.ReceiveMessageRequest:
    """A simple consumer's receive."""
    fields = {
        "filter_expression": m.FilterExpression(1, "*"), "batch_size": 16,
        "invisible_duration": m.Moment(20), "long_polling_timeout": m.Moment(5), **more,
    }  # fmt: skip
    queue = m.MessageQueue(m.Resource(name=topic), -1)
    return m.ReceiveMessageRequest(m.Resource(name=group), queue, **fields)


def consumer(topic: str, group: str = "g", *, push: bool = False) -> Settings:
    """A consumer's settings."""
    kind = ClientType.PUSH_CONSUMER if push else ClientType.SIMPLE_CONSUMER
    expression = m.FilterExpression(1, "*")
    subscription = Subscription(
        m.Resource(name=group), [SubscriptionEntry(m.Resource(name=topic), expression)]
    )
    return Settings(kind, ASKED, request_timeout=m.Moment(3), subscription=subscription)


def producer(*topics: str) -> Settings:
    """A producer's settings."""
    publishing = Publishing([m.Resource(name=topic) for topic in topics])
    return Settings(ClientType.PRODUCER, publishing=publishing)
