"""The push consumer: messages come by themselves, are spread over the group, and are acknowledged.

``async for message in consumer`` acknowledges a message when the loop comes back for the next; a
loop left by an exception sends the message in hand back.  A ``handler`` is called instead when one
is given, by up to ``workers`` tasks at a time.  Closing stops the pulls, lets handlers finish,
commits what is settled, gives locks back and leaves the group, in this order.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, TypeVar

from contrailmq.client.allocate import Strategy, strategy_of
from contrailmq.client.consumer.delivery import BatchHandler, Handler, OneByOne
from contrailmq.client.consumer.engine import Engine, Shape
from contrailmq.client.consumer.loops import Loop
from contrailmq.client.consumer.mismatch import Mismatch
from contrailmq.client.consumer.subscription import Topics, start_position, subscriptions
from contrailmq.client.message import ReceivedMessage
from contrailmq.client.names import check_group, wrap
from contrailmq.client.settings import ClientSettings, ConsumerSettings, World
from contrailmq.errors import ClientError
from contrailmq.protocol.queue import MessageQueue

T = TypeVar("T")


class PushConsumer:
    """A member of a consumer group that is handed messages.

    ``topics`` maps topics to tags (``"paid || refunded"``, ``"*"``) or ``Sql(...)``.
    ``start_from`` counts only where the group has no offset yet.  ``ordered`` hands out each
    queue's messages one after another; ``broadcast`` gives every member every message and keeps
    offsets on this machine.
    """

    def __init__(
        self,
        group: str,
        *,
        topics: Topics,
        name_servers: str | Sequence[str] | None = None,
        start_from: str | int | datetime.datetime = "last",
        handler: Handler | None = None,
        batch_handler: BatchHandler | None = None,
        workers: int = 20,
        batch: int = 1,
        ordered: bool = False,
        broadcast: bool = False,
        strategy: str | Strategy = "AVG",
        settings: ConsumerSettings | None = None,
        client: ClientSettings | None = None,
        world: World | None = None,
    ) -> None:
        check_group(group)
        if handler is not None and batch_handler is not None:
            raise ClientError("give handler or batch_handler, not both")
        if workers < 1 or batch < 1:
            raise ClientError(f"workers is {workers} and batch {batch}, each at least 1")
        client = client or ClientSettings()
        world = world or World()
        shape = Shape(
            group=wrap(client.namespace, group),
            subscriptions=subscriptions(
                topics, namespace=client.namespace, version_ms=world.clock.now_ms()
            ),
            start=start_position(start_from),
            strategy=strategy_of(strategy),
            ordered=ordered,
            broadcast=broadcast,
            handler=OneByOne(handler) if handler is not None else batch_handler,
            workers=workers,
            batch=batch,
        )
        self._engine = Engine(
            shape,
            name_servers=name_servers,
            settings=settings or ConsumerSettings(),
            client=client,
            world=world,
        )
        self._loops: list[Loop[Any]] = []
        self._has_handler = shape.handler is not None

    async def __aenter__(self) -> PushConsumer:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose(error=error)

    async def start(self) -> None:
        """Join the group and begin to pull; raises when the cluster cannot be reached."""
        try:
            await self._engine.start(loops=self._loops)
        except BaseException:
            await self._engine.aclose()
            raise

    async def aclose(self, *, error: BaseException | None = None) -> None:
        """Settle what is in hand, drain, commit, unlock and leave the group.

        Without an error, a message still in a loop's hands counts as done; with one, it is sent
        back; when the error is a cancellation, it is left to be delivered again.
        """
        settling = self._engine.settling
        for loop in self._loops:
            held = loop.release()
            if not held or settling is None:
                continue
            if error is None:
                settling.done(held)
            elif isinstance(error, Exception):
                settling.failed(held, error)
            else:
                settling.abandon(held)
        await self._engine.aclose()

    def __aiter__(self) -> Loop[ReceivedMessage]:
        return self._started(self._engine.singles)

    def batches(self, count: int) -> Loop[list[ReceivedMessage]]:
        """``async for messages in consumer.batches(32)``: lists of up to ``count`` of one queue."""
        return self._started(lambda: self._engine.lists(count))

    async def run(self) -> None:
        """Wait while the handler works, until the consumer is closed or a task of it fails."""
        if not self._has_handler:
            raise ClientError("run() is for consumers with a handler; iterate over this one")
        await self._engine.stopped()

    def pause(self) -> None:
        """Stop pulling; what is cached is still handed out."""
        self._engine.pause()

    def resume(self) -> None:
        """Pull again."""
        self._engine.resume()

    async def commit(self) -> None:
        """Store the offsets of what is settled now, rather than within five seconds."""
        await self._engine.commit(confirmed=True)

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that are ours now."""
        return self._engine.assignment()

    @property
    def mismatches(self) -> list[Mismatch]:
        """Topics on which another member of the group subscribes differently."""
        return list(self._engine.mismatches())

    @property
    def client_id(self) -> str:
        """How brokers and the other members know this consumer."""
        return self._engine.client_id

    async def wait_assigned(self, timeout_s: float = 10.0) -> list[MessageQueue]:
        """Wait until the queues were divided and some of them are ours; all that are."""
        async with asyncio.timeout(timeout_s):
            await self._engine.wait_assigned()
        return self._engine.assignment()

    def _started(self, begin: Callable[[], Loop[T]]) -> Loop[T]:
        if self._has_handler:
            raise ClientError("this consumer has a handler; leave it out to iterate")
        loop = begin()
        self._loops.append(loop)
        return loop

    def __repr__(self) -> str:
        return f"<PushConsumer {self._engine}>"
