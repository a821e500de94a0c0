"""Push consumption over shared queues: messages come by themselves, to whichever member is free.

Every member pops all queues of its topics.  So a group may have more members than queues, a
message that takes long holds up no other message, and a member that joins or leaves moves nothing.
A handler (or one round of ``async for``) that ends well settles its message; one that raises has
it delivered again after a while that grows with each attempt, and after ``retries_max`` attempts
puts it into the dead letters.  Order is not kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from types import TracebackType
from typing import Final

from contrailmq.client.consumer.pop_member import PopMember
from contrailmq.client.consumer.pops import PoppedMessage, check_pop
from contrailmq.client.consumer.subscription import Topics
from contrailmq.client.crew import Crew, to_the_end
from contrailmq.client.message import DEAD_LETTER_S, DELAYS_S
from contrailmq.client.settings import ClientSettings, World
from contrailmq.errors import ClientError, ContrailError, NoRoute
from contrailmq.net.noise import Noise
from contrailmq.protocol.pop import POP_COUNT_MAX
from contrailmq.protocol.queue import MessageQueue

log = logging.getLogger(__name__)

FIRST_RETRY: Final = 2  # 10 s, as the original's popDelayLevel
RETRIES_MAX: Final = 16
ACK_REST_S: Final = 0.005  # acknowledgements of so long go together
ACKS_MAX: Final = 256
ERROR_PAUSE_S: Final = 1.0
QUEUES_S: Final = 5.0  # how often new brokers and topics are looked for
PopHandler = Callable[[PoppedMessage], Awaitable[None]]


class PopConsumer:
    """A member of a consumer group that is handed messages from queues all members share.

    Give a ``handler``, called by up to ``workers`` tasks at a time, or iterate over the consumer.
    ``message.retry(after)`` asks for another delivery later; ``await message.extend(seconds)`` is
    for work that takes longer than ``invisible_s``.
    """

    def __init__(
        self,
        group: str,
        *,
        topics: Topics,
        name_servers: str | Sequence[str] | None = None,
        endpoints: str | Sequence[str] | None = None,
        start_from: str = "first",
        handler: PopHandler | None = None,
        workers: int = 20,
        invisible_s: float = 60.0,
        retries_max: int = RETRIES_MAX,
        prefetch: int = 96,
        wait_s: float = 15.0,
        close_timeout_s: float = 10.0,
        client: ClientSettings | None = None,
        world: World | None = None,
        kind: type[PoppedMessage] = PoppedMessage,
    ) -> None:
        check_pop(1, invisible_s)
        if workers < 1 or prefetch < 1:
            raise ClientError(f"workers is {workers} and prefetch {prefetch}, each at least 1")
        self._member = PopMember(
            group, topics,
            name_servers=name_servers, endpoints=endpoints, start_from=start_from,
            client=client, world=world, kind=kind,
        )  # fmt: skip
        self._handler = handler
        self._workers = workers
        self._invisible_s = invisible_s
        self._retries_max = retries_max
        self._wait_s = wait_s
        self._close_timeout_s = close_timeout_s
        self._room = asyncio.Semaphore(prefetch)  # messages here that are not settled
        self._inbox: asyncio.Queue[PoppedMessage | None] = asyncio.Queue()
        self._acks: list[PoppedMessage] = []
        self._has_acks = asyncio.Event()
        self._noise = Noise(self._member.session.world.clock)
        name = f"pop consumer {group}"
        self._crew, self._hands, self._errands = Crew(name), Crew(name), Crew(name)
        self._pops: dict[MessageQueue, asyncio.Task[None]] = {}
        self._held: PoppedMessage | None = None
        self._started = self._closed = False
        self._stopped = asyncio.Event()

    async def __aenter__(self) -> PopConsumer:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        held, self._held = self._held, None
        if held is not None and error is None:
            self._settle(held)
        elif held is not None and isinstance(error, Exception):
            await self._again(held)
        await self.aclose()

    async def start(self) -> None:
        """Join the group and begin to pop; raises when the cluster cannot be reached."""
        if self._started:
            raise ClientError("the consumer was started before; make a new one")
        self._started = True
        try:
            await self._member.join()
        except BaseException:
            await self.aclose()
            raise
        self._crew.start(self._keep_queues(), name="queues")
        self._errands.start(self._keep_acking(), name="acknowledgements")
        if self._handler is not None:
            for number in range(self._workers):
                self._hands.start(self._work(self._handler), name=f"worker {number}")

    async def aclose(self) -> None:
        """Stop popping, let handlers finish, settle what is done, leave the group."""
        if not self._closed:
            self._closed = True
            await to_the_end(self._close())

    async def run(self) -> None:
        """Wait while the handler works, until the consumer is closed or a task of it fails."""
        if self._handler is None:
            raise ClientError("run() is for consumers with a handler; iterate over this one")
        while not self._stopped.is_set():
            self._crew.check()
            self._hands.check()
            try:
                async with asyncio.timeout(1.0):
                    await self._stopped.wait()
            except TimeoutError:
                continue

    def __aiter__(self) -> AsyncIterator[PoppedMessage]:
        if self._handler is not None:
            raise ClientError("this consumer has a handler; leave it out to iterate")
        return self

    async def __anext__(self) -> PoppedMessage:
        """Settle what was handed out last and wait for the next."""
        held, self._held = self._held, None
        if held is not None:
            await self._done(held)
        self._crew.check()
        message = None if self._closed else await self._next()
        if message is None:
            raise StopAsyncIteration
        self._held = message
        return message

    @property
    def client_id(self) -> str:
        """How brokers and the other members know this consumer."""
        return self._member.session.client_id

    # -- popping

    async def _keep_queues(self) -> None:
        """One pop under way for each broker of each topic."""
        while True:
            try:
                for queue in await self._member.queues():
                    task = self._pops.get(queue)
                    if task is None or task.done():
                        self._pops[queue] = self._crew.start(
                            self._keep_popping(queue), name=f"pop {queue.broker_name}"
                        )
            except (NoRoute, ContrailError) as error:
                log.warning("nothing can be popped yet: error=%s", error)
            await asyncio.sleep(QUEUES_S)

    async def _keep_popping(self, queue: MessageQueue) -> None:
        subscription = self._member.subscriptions[queue.topic]
        while True:
            await self._room.acquire()
            count = 1
            while count < POP_COUNT_MAX and not self._room.locked():
                await self._room.acquire()
                count += 1
            messages: list[PoppedMessage] = []
            try:
                messages = await self._member.pops.pop(
                    queue, subscription,
                    count=count, invisible_s=self._invisible_s, wait_s=self._wait_s,
                )  # fmt: skip
            except ContrailError as error:
                log.warning("pop failed queue=%s error=%s", queue, error)
                await asyncio.sleep(ERROR_PAUSE_S)
            for _ in range(count - len(messages)):
                self._room.release()
            for message in messages:
                self._inbox.put_nowait(message)

    async def _next(self) -> PoppedMessage | None:
        """The next message that is still ours; None when the consumer is closed."""
        while True:
            message = await self._inbox.get()
            if message is None:
                self._inbox.put_nowait(None)  # for the others who wait
                return None
            if message.invisible_until_ms > self._member.session.world.clock.now_ms():
                return message
            self._room.release()  # it waited here for too long and belongs to the group again

    # -- settling

    async def _work(self, handler: PopHandler) -> None:
        while True:
            message = await self._next()
            if message is None:
                return
            try:
                await handler(message)
            except Exception as error:
                similar = self._noise.held_back(f"{message.topic} {type(error).__qualname__}")
                if similar is not None:
                    log.warning(
                        "consuming failed, will be tried again topic=%s id=%s similar=%s",
                        message.topic, message.message_id, similar, exc_info=error,
                    )  # fmt: skip
                message.retry(message.retry_after_s)
            await self._done(message)

    async def _done(self, message: PoppedMessage) -> None:
        if message.retry_asked:
            await self._again(message)
        else:
            self._settle(message)

    def _settle(self, message: PoppedMessage) -> None:
        self._room.release()
        self._acks.append(message)
        self._has_acks.set()

    async def _again(self, message: PoppedMessage) -> None:
        """Have a message delivered again, or put it away after the last attempt."""
        self._room.release()
        after_s = message.retry_after_s
        if after_s is None:
            after_s = DELAYS_S[min(FIRST_RETRY + message.reconsume_times, len(DELAYS_S) - 1)]
        try:
            if after_s == DEAD_LETTER_S or message.reconsume_times >= self._retries_max:
                await message.origin.pops.dead_letter(message)
            else:
                await message.origin.pops.change(message, after_s)
        except ContrailError as error:  # it comes back when its time is over
            log.warning("not given back id=%s error=%s", message.message_id, error)

    async def _keep_acking(self) -> None:
        while True:
            await self._has_acks.wait()
            await asyncio.sleep(ACK_REST_S)
            await self._flush_acks()

    async def _flush_acks(self) -> None:
        while self._acks:
            acks, self._acks = self._acks[:ACKS_MAX], self._acks[ACKS_MAX:]
            try:
                await self._member.pops.ack(acks)
            except ContrailError as error:
                log.warning("not acknowledged count=%s error=%s", len(acks), error)
        self._has_acks.clear()

    async def _close(self) -> None:
        await self._crew.aclose()
        waiting = []
        while not self._inbox.empty():
            message = self._inbox.get_nowait()
            if message is not None:
                waiting.append(message)
        self._inbox.put_nowait(None)
        for message in waiting:  # other members need not wait for them
            await self._release(message)
        await self._hands.aclose(drain_s=self._close_timeout_s)
        await self._errands.aclose()
        await self._flush_acks()
        await self._member.leave()
        self._stopped.set()

    async def _release(self, message: PoppedMessage) -> None:
        try:
            await message.origin.pops.change(message, 0)
        except ContrailError as error:
            log.info("a message comes back later id=%s error=%s", message.message_id, error)

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open" if self._started else "new"
        return f"<PopConsumer {self._member.group} {state}>"
