"""Sending one prepared message: choose a queue, try, and try another broker within a budget.

The rules are those of Java's synchronous send: a failed connection, a lost answer or a refusal
that another broker may not repeat leads to another try while tries and time are left; a stored
message whose flush or replica was late is a success with another status.  Who fixed the queue
gets one try.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

from contrailmq.client.message import Receipt, SendStatus
from contrailmq.client.producer.faults import FaultLog
from contrailmq.client.producer.outgoing import Outgoing, receipt_of
from contrailmq.client.producer.queue_choice import RoundRobin, Selector
from contrailmq.client.routes import PublishRoute
from contrailmq.client.session import Session
from contrailmq.client.settings import ProducerSettings
from contrailmq.errors import (
    BrokerError,
    ClientError,
    ContrailError,
    NetworkError,
    RequestTimeout,
)
from contrailmq.net.connection import Connection
from contrailmq.protocol.command import Command
from contrailmq.protocol.queue import MessageQueue

_RETRY_CODES = frozenset((204, 205, 1500))
"""NO_BUYER_ID, NOT_IN_CURRENT_UNIT, GO_AWAY: refusals without a class of their own."""


_REFRESH_S = 1.0  # the longest a failed send waits for a new route
_PAUSE_S = 0.1


class Sender:
    """Sends for one group over one session."""

    def __init__(self, session: Session, group: str, settings: ProducerSettings) -> None:
        self._session = session
        self.group = group
        self._settings = settings
        self.clock = session.world.clock
        self.faults = FaultLog()
        self._rng: random.Random = session.world.rng
        self._round_robin = RoundRobin(
            rng=self._rng,
            clock=self.clock,
            faults=self.faults,
            avoid_faults=settings.avoid_faults,
        )

    async def route(self, topic: str) -> PublishRoute:
        """The queues of a topic to choose from."""
        found = self._session.routes.find_publish(topic)
        if found is not None:
            return found
        return await self._session.routes.publish(
            topic,
            default_topic=self._settings.default_topic,
            queue_count=self._settings.default_topic_queues,
        )

    def send_free(
        self, outgoing: Outgoing, timeout_s: float | None
    ) -> Coroutine[Any, Any, Receipt]:
        """``send`` to any queue, by a shorter way when nothing stands in it.

        With a known route and an open connection the request is on its way before anything is
        awaited; whatever goes wrong is left to ``send``.
        """
        route = self._session.routes.find_publish(outgoing.topic)
        if route is not None and not self._settings.avoid_faults:
            queue = self._round_robin.choose(route)
            address = self._session.find_writer(queue.broker_name)
            connection = self._session.find_connection(address) if address is not None else None
            if connection is not None and not connection.is_write_paused:
                return self._send_at_once(outgoing, queue, connection, timeout_s=timeout_s)
        return self.send(outgoing, timeout_s=timeout_s)

    async def _send_at_once(
        self,
        outgoing: Outgoing,
        queue: MessageQueue,
        connection: Connection,
        *,
        timeout_s: float | None,
    ) -> Receipt:
        budget_s = self._settings.send_timeout_s if timeout_s is None else timeout_s
        begun = asyncio.get_running_loop().time()
        command = self._session.sign(self._command(outgoing, queue))
        outcome: Command | ContrailError
        try:
            outcome = await connection.submit(command, timeout_s=budget_s)
        except ContrailError as error:
            outcome = error
        return await self.go_on(outgoing, queue, outcome, begun=begun, timeout_s=timeout_s)

    async def go_on(
        self,
        outgoing: Outgoing,
        queue: MessageQueue,
        outcome: Command | ContrailError,
        *,
        begun: float,
        timeout_s: float | None,
        fixed: bool = False,
    ) -> Receipt:
        """What follows a first try at ``begun``: its receipt, or the tries that are left.

        There are none for who fixed the queue.
        """
        tries = 0 if fixed else self._settings.retries
        budget_s = self._settings.send_timeout_s if timeout_s is None else timeout_s
        try:
            if isinstance(outcome, ContrailError):
                raise outcome
            receipt = receipt_of(outcome, outgoing, queue)
            if not self._wants_more(receipt) or tries == 0:
                return receipt
            failure: ContrailError | None = None
        except ContrailError as error:
            if tries == 0 and _is_route_old(error):
                await self._refreshed(outgoing.topic, None, _REFRESH_S)  # for the next send
            if not _is_retryable(error) or tries == 0:
                raise
            failure = error
        left_s = begun + budget_s - asyncio.get_running_loop().time()
        if left_s <= 0 and failure is not None:
            raise failure
        return await self.send(outgoing, timeout_s=left_s, failed=queue.broker_name, tries=tries)

    async def send(
        self,
        outgoing: Outgoing,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_s: float | None = None,
        failed: str | None = None,
        tries: int | None = None,
    ) -> Receipt:
        """Send until stored; raises the last error when tries or time are used up.

        ``failed`` names a broker that was tried before, ``tries`` says how many are left.
        """
        loop = asyncio.get_running_loop()
        budget_s = self._settings.send_timeout_s if timeout_s is None else timeout_s
        deadline = loop.time() + budget_s
        route = await self._route_in_time(outgoing.topic, budget_s)
        if selector is not None:
            queue = selector(route.queues)
        if tries is None:
            tries = 1 if queue is not None else 1 + self._settings.retries
        last_broker = failed
        errors: list[str] = []
        attempt = 0
        while attempt < tries:
            attempt += 1
            chosen = queue or self._round_robin.choose(route, last_broker=last_broker)
            if chosen.broker_name == last_broker and queue is None:
                # There is no other broker: give this one a moment to come back.
                await asyncio.sleep(min(_PAUSE_S * attempt, max(deadline - loop.time(), 0.0)))
            left_s = deadline - loop.time()
            if left_s <= 0:
                break
            try:
                receipt = await self._try(outgoing, chosen, left_s)
                if not self._wants_more(receipt) or attempt == tries:
                    return receipt
                errors.append(f"{chosen.broker_name}: {receipt.status.value}")
            except ContrailError as error:
                if not _is_retryable(error):
                    raise
                errors.append(f"{chosen.broker_name}: {error}")
                if _is_route_old(error):
                    left_s = min(deadline - loop.time(), _REFRESH_S)
                    route = await self._refreshed(outgoing.topic, route, left_s) or route
                    if selector is not None and not route.has_broker(chosen.broker_name):
                        queue = selector(route.queues)  # the name servers have dropped its broker
                        tries = min(tries + 1, 1 + self._settings.retries)
                if attempt == tries:
                    error.add_note(_story(errors, outgoing))
                    raise
            last_broker = chosen.broker_name
        raise RequestTimeout(
            f"message to {outgoing.topic!r} was not stored within {budget_s:g} s"
            f" ({_story(errors, outgoing)}); raise the timeout, or look at the broker's load"
        )

    async def send_oneway(
        self,
        outgoing: Outgoing,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
    ) -> None:
        """Hand the message to a connection; nobody answers, so nobody knows."""
        route = await self.route(outgoing.topic)
        if selector is not None:
            queue = selector(route.queues)
        chosen = queue or self._round_robin.choose(route)
        await self._session.oneway(
            self._session.writer(chosen.broker_name), self._command(outgoing, chosen)
        )

    async def _try(self, outgoing: Outgoing, queue: MessageQueue, left_s: float) -> Receipt:
        begun_ms = self.clock.monotonic_ms()
        name = queue.broker_name
        try:
            address = self._session.writer(name)
            command = self._command(outgoing, queue)
            answer = await self._session.call(address, command, timeout_s=left_s)
            receipt = receipt_of(answer, outgoing, queue)
        except NetworkError:
            self._note(name, begun_ms, isolate=True, reachable=False)
            raise
        except BrokerError:
            self._note(name, begun_ms)
            raise
        if self._settings.avoid_faults:
            self._note(name, begun_ms)
        return receipt

    def _command(self, outgoing: Outgoing, queue: MessageQueue) -> Command:
        return outgoing.command(
            self.group, queue, born_ms=self.clock.now_ms(), settings=self._settings
        )

    def _note(
        self, broker_name: str, begun_ms: int, *, isolate: bool = False, reachable: bool = True
    ) -> None:
        self.faults.note(
            broker_name,
            self.clock.monotonic_ms() - begun_ms,
            now_ms=self.clock.now_ms(),
            isolate=isolate,
            reachable=reachable,
        )

    def _wants_more(self, receipt: Receipt) -> bool:
        return self._settings.retry_not_stored and receipt.status is not SendStatus.SEND_OK

    async def _route_in_time(self, topic: str, budget_s: float) -> PublishRoute:
        found = self._session.routes.find_publish(topic)
        if found is not None:
            return found
        try:
            async with asyncio.timeout(budget_s):
                return await self.route(topic)
        except TimeoutError:
            raise RequestTimeout(
                f"no route for topic {topic!r} within {budget_s:g} s:"
                f" the name servers ({self._session.name_servers}) do not answer"
            ) from None

    async def _refreshed(
        self, topic: str, route: PublishRoute | None, left_s: float
    ) -> PublishRoute | None:
        """Fetch the route again. Returns the old one if no name server answers in time."""
        try:
            async with asyncio.timeout(max(left_s, 0.0)):
                await self._session.routes.refresh(topic)
                return await self.route(topic)
        except (TimeoutError, NetworkError, BrokerError, ClientError):
            return route  # the old one may still do


def _is_route_old(error: ContrailError) -> bool:
    """Whether the broker that was tried may not be where the route says, or not at all."""
    return isinstance(error, NetworkError) or (
        isinstance(error, BrokerError) and error.refresh_route
    )


def _is_retryable(error: ContrailError) -> bool:
    if isinstance(error, BrokerError):
        return error.retryable or error.code in _RETRY_CODES
    return isinstance(error, NetworkError)


def _story(errors: list[str], outgoing: Outgoing) -> str:
    tried = "; ".join(errors) or "no try was made"
    return f"message {outgoing.message_id.partition(',')[0]}, tried {len(errors)} times: {tried}"
