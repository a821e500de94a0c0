"""Questions to name servers and brokers, blocking, many under way together.

``Brokers`` knows routes and asks about offsets; it is made in the process that plans a query and
again in each task, and does not travel between them.  Everything is tried again for
``Access.patience_s``: a broker that restarts is no reason to end a stream.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from contrailmq.bulk.options import Access, SourceOptions
from contrailmq.bulk.wire import Wire
from contrailmq.client.routes import reading_address, subscribe_queues
from contrailmq.clock import Clock, SystemClock
from contrailmq.errors import (
    ContrailError,
    NetworkError,
    NoRoute,
    SystemBusy,
    error_of,
)
from contrailmq.protocol.bodies.route import TopicRouteData
from contrailmq.protocol.bodies.topic import TopicList
from contrailmq.protocol.codes import RequestCode, ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.header import Header
from contrailmq.protocol.headers.offset import (
    GetMaxOffsetRequest,
    GetMinOffsetRequest,
    QueryConsumerOffsetRequest,
    SearchOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from contrailmq.protocol.headers.pull import SUBSCRIPTION_FLAG, PullMessageRequest
from contrailmq.protocol.headers.route import GetRouteInfoRequest
from contrailmq.protocol.message import decode_records
from contrailmq.protocol.names import TOOLS_GROUP, is_retry_or_dlq, is_system_topic
from contrailmq.protocol.queue import MessageQueue

log = logging.getLogger(__name__)
T = TypeVar("T")

PAUSE_FIRST_S: Final = 0.05
PAUSE_MAX_S: Final = 2.0
ROUTE_LIFE_MS: Final = 10_000


def pause(seconds: float) -> None:
    """Do nothing for a while: a task has a thread of its own."""
    threading.Event().wait(seconds)


class Patience:
    """Tries again until time is over: ``pause`` waits a little longer each time, or raises."""

    def __init__(self, limit_s: float, *, clock: Clock | None = None) -> None:
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._limit_ms = int(limit_s * 1000)
        self.renew()

    def renew(self) -> None:
        """Something worked: the time begins anew."""
        self._until_ms = self._clock.monotonic_ms() + self._limit_ms
        self._pause_s = PAUSE_FIRST_S

    def pause(self, error: Exception) -> None:
        """Wait before the next try; raises ``error`` when there has been enough of it."""
        if self._clock.monotonic_ms() + self._pause_s * 1000 > self._until_ms:
            raise error
        pause(self._pause_s)
        self._pause_s = min(PAUSE_MAX_S, self._pause_s * 2)


def _look(queue: MessageQueue, offset: int) -> Command:
    """A small pull, for the times of the messages from an offset on."""
    header = PullMessageRequest(
        consumer_group=TOOLS_GROUP,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=SUBSCRIPTION_FLAG,
        subscription="*",
        broker_name=queue.broker_name,
    )
    return Command.request(RequestCode.PULL_MESSAGE, header)


def _walk(at: dict[MessageQueue, int], queue: MessageQueue, answer: Command, *, ms: int) -> bool:
    """Move ``at`` behind messages older than ``ms``; whether to look on."""
    if answer.code == ResponseCode.PULL_OFFSET_MOVED:
        following = int(answer.fields.get("nextBeginOffset", 0))
        is_on = following > at[queue]  # deleted meanwhile
        at[queue] = max(at[queue], following)
        return is_on
    if answer.code != ResponseCode.SUCCESS:
        return False
    for record in decode_records(answer.body):
        if record.store_ms >= ms:
            at[queue] = max(at[queue], record.queue_offset)
            return False
    following = int(answer.fields["nextBeginOffset"])
    is_on = following > at[queue]
    at[queue] = max(at[queue], following)
    return is_on


class Brokers:
    """The brokers of a cluster, as one task or planner sees them."""

    def __init__(
        self, access: Access, *, clock: Clock | None = None, route_patience_s: float = 0.0
    ) -> None:
        """``route_patience_s``: for so long a topic may be unknown, in ``patiently``.

        Name servers forget a topic when the last of its brokers goes, also if that comes back.
        """
        self.access = access
        self.route_patience_s = route_patience_s
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._wires: dict[str, Wire] = {}
        self._routes: dict[str, tuple[int, TopicRouteData]] = {}
        self._addresses: dict[str, dict[int, str]] = {}
        self._expected: set[str] = set()  # topics that their first message makes

    def close(self) -> None:
        """Close every connection."""
        for wire in self._wires.values():
            wire.close()
        self._wires.clear()

    def wire(self, address: str) -> Wire:
        """The connection to an address, opened if need be."""
        found = self._wires.get(address)
        if found is None:
            access = self.access
            found = self._wires[address] = Wire(
                address, timeout_s=access.timeout_s, credentials=access.credentials, tls=access.tls
            )
        return found

    def drop(self, address: str) -> None:
        """Forget a connection that failed, and every route: the broker may have moved."""
        wire = self._wires.pop(address, None)
        if wire is not None:
            wire.close()
        self._routes.clear()

    def patiently(self, attempt: Callable[[], T]) -> T:
        """What ``attempt`` answers, tried again while the cluster cannot be reached."""
        patience = Patience(self.access.patience_s, clock=self._clock)
        routeless = Patience(self.route_patience_s, clock=self._clock)
        while True:
            try:
                return attempt()
            except NoRoute as error:
                self._routes.clear()
                routeless.pause(error)
            except (NetworkError, SystemBusy) as error:
                log.info("trying again error=%s", error)
                self._routes.clear()
                patience.pause(error)

    # Routes

    def topics(self) -> list[str]:
        """Every topic the name server knows, sorted."""
        command = Command.request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        answer = self.ask_name_server(command)
        if answer.code != 0:
            raise error_of(answer.code, answer.remark)
        return sorted(TopicList.decode(answer.body).topic_list)

    def find_route(self, topic: str) -> TopicRouteData | None:
        """Where a topic lives, not older than some seconds; None when nobody knows it."""
        known = self._routes.get(topic)
        now_ms = self._clock.monotonic_ms()
        if known is not None and now_ms < known[0]:
            return known[1]
        header = GetRouteInfoRequest(topic=topic, accept_standard_json_only=True)
        answer = self.ask_name_server(Command.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header))
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        if answer.code != 0:
            raise error_of(answer.code, answer.remark)
        route = TopicRouteData.decode(answer.body)
        self._note(topic, route)
        return route

    def expect(self, topic: str, route: TopicRouteData) -> None:
        """Take a topic that its first message will make for one that has this route already."""
        self._expected.add(topic)
        self._note(topic, route)

    def is_expected(self, topic: str) -> bool:
        """Whether a topic is yet to be made by its first message, as far as is known."""
        return topic in self._expected

    def forget(self, topic: str) -> None:
        """Ask for the route again next time."""
        self._routes.pop(topic, None)

    def route(self, topic: str) -> TopicRouteData:
        """Where a topic lives; NoRoute when nobody knows it."""
        route = self.find_route(topic)
        if route is None:
            raise NoRoute(
                f"topic {topic!r} is not known to the name servers"
                f" {';'.join(self.access.name_servers)}; make it: contrail topic create {topic}"
            )
        return route

    def address(self, broker: str, topic: str) -> str:
        """Where to read from a broker that had the topic: its primary, or else a replica."""
        is_known = broker in self._addresses and (topic in self._routes or topic in self._expected)
        if not is_known and self.find_route(topic) is None:
            raise NetworkError(f"topic {topic} has no route now: its brokers are away")
        found = reading_address(self._addresses.get(broker, {}), 0)
        if found is None:
            raise NetworkError(f"broker {broker} is not in the route of topic {topic} now")
        return found[1]

    def readable_queues(self, options: SourceOptions) -> list[MessageQueue]:
        """The queues a source reads, sorted; topics of a pattern may come later, others may not."""
        if options.assign:
            return sorted(
                queue
                for topic, broker, ids in options.assign
                for queue in subscribe_queues(topic, self.route(topic))
                if queue.queue_id in ids and broker in (None, queue.broker_name)
            )
        if options.topics_pattern is not None:
            pattern = re.compile(options.topics_pattern)
            hidden = not options.topics_pattern.startswith("%")
            topics = [
                topic
                for topic in self.topics()
                if pattern.fullmatch(topic)
                and not is_system_topic(topic)
                and not (hidden and is_retry_or_dlq(topic))
            ]
        else:
            topics = list(options.topics)
        queues: list[MessageQueue] = []
        for topic in topics:
            route = self.find_route(topic) if options.topics_pattern else self.route(topic)
            if route is not None:
                queues += subscribe_queues(topic, route)
        return sorted(queues)

    # Offsets

    def first_offsets(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        """The first offset of each queue."""
        return self._offsets(
            queues,
            RequestCode.GET_MIN_OFFSET,
            lambda q: GetMinOffsetRequest(
                topic=q.topic, queue_id=q.queue_id, broker_name=q.broker_name
            ),
        )

    def end_offsets(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        """The offset after the last message of each queue."""
        return self._offsets(
            queues,
            RequestCode.GET_MAX_OFFSET,
            lambda q: GetMaxOffsetRequest(
                topic=q.topic, queue_id=q.queue_id, broker_name=q.broker_name
            ),
        )

    def offsets_at(self, queues: Sequence[MessageQueue], ms: int) -> dict[MessageQueue, int]:
        """The offset of the first message stored at a time or later; the end without one.

        Brokers of 4.9 answer with any message of a millisecond, or with the last one before it. So
        they are asked for the one before, and the messages from there on are looked at.
        """
        found = self._offsets(
            queues,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
            lambda q: SearchOffsetRequest(
                topic=q.topic, queue_id=q.queue_id, timestamp=ms - 1, broker_name=q.broker_name
            ),
        )
        ends = self.end_offsets(queues)
        at = {queue: min(max(offset, 0), ends[queue]) for queue, offset in found.items()}
        walking = [queue for queue in queues if at[queue] < ends[queue]]
        while walking:
            asked = [(queue, _look(queue, at[queue])) for queue in walking]
            answers = self.ask_all(asked)
            walking = [
                queue
                for queue, answer in zip(walking, answers, strict=True)
                if _walk(at, queue, answer, ms=ms) and at[queue] < ends[queue]
            ]
        return {queue: min(offset, ends[queue]) for queue, offset in at.items()}

    def committed(self, group: str, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        """Where a group stands; queues it has no offset in are left out."""
        found = self._offsets(
            queues,
            RequestCode.QUERY_CONSUMER_OFFSET,
            lambda q: QueryConsumerOffsetRequest(
                consumer_group=group,
                topic=q.topic,
                queue_id=q.queue_id,
                set_zero_if_not_found=False,
                broker_name=q.broker_name,
            ),
        )
        return {queue: offset for queue, offset in found.items() if offset >= 0}

    def commit(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Store where a group stands."""
        self._offsets(
            list(offsets),
            RequestCode.UPDATE_CONSUMER_OFFSET,
            lambda q: UpdateConsumerOffsetRequest(
                consumer_group=group,
                topic=q.topic,
                queue_id=q.queue_id,
                commit_offset=offsets[q],
                broker_name=q.broker_name,
            ),
        )

    # Inside

    def _offsets(
        self,
        queues: Sequence[MessageQueue],
        code: RequestCode,
        header: Callable[[MessageQueue], Header],
    ) -> dict[MessageQueue, int]:
        answers = self.ask_all([(queue, Command.request(code, header(queue))) for queue in queues])
        found: dict[MessageQueue, int] = {}
        for queue, answer in zip(queues, answers, strict=True):
            if answer.code == ResponseCode.QUERY_NOT_FOUND:
                found[queue] = -1
            elif answer.code != 0:
                error = error_of(answer.code, answer.remark)
                error.add_note(f"asked about {queue}")
                raise error
            else:
                found[queue] = int(answer.fields.get("offset", -1))
        return found

    def ask_all(self, questions: Iterable[tuple[MessageQueue, Command]]) -> list[Command]:
        """The answers of the queues' brokers, whatever their codes, in the order asked."""
        by_address: dict[str, list[tuple[int, Command]]] = {}
        count = 0
        for queue, command in questions:
            address = self.address(queue.broker_name, queue.topic)
            by_address.setdefault(address, []).append((count, command))
            count += 1
        found: dict[int, Command] = {}
        for address, asked in by_address.items():
            try:
                answers = self.wire(address).call_many([command for _, command in asked])
            except ContrailError:
                self.drop(address)
                raise
            for (index, _), answer in zip(asked, answers, strict=True):
                if answer.code == ResponseCode.SYSTEM_BUSY:
                    raise SystemBusy(answer.remark or "busy")
                found[index] = answer
        return [found[index] for index in range(count)]

    def _note(self, topic: str, route: TopicRouteData) -> None:
        for broker in route.broker_datas:
            self._addresses[broker.broker_name] = dict(broker.broker_addrs)
        self._routes[topic] = (self._clock.monotonic_ms() + ROUTE_LIFE_MS, route)

    def ask_name_server(self, command: Command) -> Command:
        """The answer of the first name server that can be reached, whatever its code."""
        failure: ContrailError | None = None
        for address in self.access.name_servers:
            try:
                return self.wire(address).call(command)
            except NetworkError as error:
                self.drop(address)
                failure = error
        assert failure is not None
        raise failure
