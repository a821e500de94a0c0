"""The simple consumer: ``receive`` gives messages, and each is settled by itself.

All members of the group share all queues, so there may be more members than queues, and a slow
member holds up no other.  What is not settled when its invisible time is over comes back to any of
them.  It needs brokers of 5.x (POP).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from types import TracebackType

from contrailmq.client.consumer.pop_member import PopMember
from contrailmq.client.consumer.pops import PoppedMessage, check_pop
from contrailmq.client.consumer.subscription import Topics
from contrailmq.client.crew import Crew, to_the_end
from contrailmq.client.settings import ClientSettings, World
from contrailmq.errors import ClientError, ContrailError
from contrailmq.protocol.queue import MessageQueue

log = logging.getLogger(__name__)


class SimpleConsumer:
    """A member of a consumer group that asks for messages and settles them one by one.

    ``topics`` maps topics to tags (``"paid || refunded"``, ``"*"``) or ``Sql(...)``.  A message
    that was received is hidden from the other members for ``invisible_s`` seconds.
    """

    def __init__(
        self,
        group: str,
        *,
        topics: Topics,
        name_servers: str | Sequence[str] | None = None,
        endpoints: str | Sequence[str] | None = None,
        start_from: str = "first",
        invisible_s: float = 30.0,
        client: ClientSettings | None = None,
        world: World | None = None,
        kind: type[PoppedMessage] = PoppedMessage,
    ) -> None:
        check_pop(1, invisible_s)
        self._member = PopMember(
            group, topics,
            name_servers=name_servers, endpoints=endpoints, start_from=start_from,
            client=client, world=world, kind=kind,
        )  # fmt: skip
        self._invisible_s = invisible_s
        self._crew = Crew(f"simple consumer {group}")
        self._turn = 0
        self._under_way: dict[MessageQueue, asyncio.Task[list[PoppedMessage]]] = {}
        self._left: deque[PoppedMessage] = deque()
        self._started = self._closed = False

    async def __aenter__(self) -> SimpleConsumer:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def start(self) -> None:
        """Join the group; raises when the cluster cannot be reached."""
        if self._started:
            raise ClientError("the consumer was started before; make a new one")
        self._started = True
        try:
            await self._member.join()
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """Leave the group; what was received and not settled comes back to other members."""
        if not self._closed:
            self._closed = True
            await to_the_end(self._close())

    async def receive(
        self, count: int = 16, *, invisible_s: float | None = None, wait_s: float = 15.0
    ) -> list[PoppedMessage]:
        """Up to ``count`` messages; waits for the first, and returns none when none came."""
        invisible_s = self._invisible_s if invisible_s is None else invisible_s
        check_pop(count, invisible_s)
        kept = self._take_left(count)
        if kept:
            return kept
        queues = await self._member.queues()
        if len(queues) == 1:
            return await self._pop(queues[0], count, invisible_s, wait_s)
        return await self._pop_all(queues, count, invisible_s, wait_s)

    async def ack(self, *messages: PoppedMessage) -> None:
        """Settle messages; several go in one request for each broker."""
        if messages:
            await self._member.pops.ack(messages)

    async def change_invisible(self, message: PoppedMessage, seconds: float) -> None:
        """Hide a message for so many seconds from now on; 0 lets it come again at once."""
        await self._member.pops.change(message, seconds)

    async def dead_letter(self, message: PoppedMessage) -> None:
        """Put a message into the group's dead-letter topic, and settle it."""
        await self._member.pops.dead_letter(message)

    @property
    def client_id(self) -> str:
        """How brokers know this consumer."""
        return self._member.session.client_id

    def _pop(
        self, queue: MessageQueue, count: int, invisible_s: float, wait_s: float
    ) -> asyncio.Task[list[PoppedMessage]]:
        subscription = self._member.subscriptions[queue.topic]
        return self._crew.spawn(
            self._member.pops.pop(
                queue, subscription, count=count, invisible_s=invisible_s, wait_s=wait_s
            ),
            name=f"pop {queue.broker_name}",
        )

    async def _pop_all(
        self, queues: list[MessageQueue], count: int, invisible_s: float, wait_s: float
    ) -> list[PoppedMessage]:
        """Ask all brokers at once; answers that come after the first are for the next call."""
        self._turn += 1
        found: list[PoppedMessage] = []
        first = self._turn % len(queues)
        for queue in queues[first:] + queues[:first]:
            if queue not in self._under_way:
                self._under_way[queue] = self._pop(queue, count, invisible_s, wait_s)
        loop = asyncio.get_running_loop()
        end = loop.time() + wait_s
        while not found and self._under_way:
            left_s = end - loop.time()
            done, _ = await asyncio.wait(
                self._under_way.values(),
                timeout=max(left_s, 0.0),
                return_when=asyncio.FIRST_COMPLETED,
            )
            for queue, task in list(self._under_way.items()):
                if task in done:
                    del self._under_way[queue]
                    found += task.result()
            if not done:
                break
        self._left.extend(found[count:])
        return found[:count]

    def _take_left(self, count: int) -> list[PoppedMessage]:
        """Messages that came with an earlier call and are still ours."""
        now_ms = self._member.session.world.clock.now_ms()
        found: list[PoppedMessage] = []
        while self._left and len(found) < count:
            message = self._left.popleft()
            if message.invisible_until_ms > now_ms:
                found.append(message)
        return found

    async def _close(self) -> None:
        for message in self._left:  # other members need not wait for them
            await self._let_go(message)
        await self._crew.aclose()
        await self._member.leave()

    async def _let_go(self, message: PoppedMessage) -> None:
        try:
            await self._member.pops.change(message, 0)
        except ContrailError as error:
            log.info("a message comes back later id=%s error=%s", message.message_id, error)

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open" if self._started else "new"
        return f"<SimpleConsumer {self._member.group} {state}>"
