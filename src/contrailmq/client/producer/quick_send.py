"""The short way of a single send: a frame from a template, an answer read by a lane.

Theory of operation.  Most sends look alike: a small body, a known route, an open connection
that takes bytes.  For these a ``QuickTopic`` holds what does not change, per queue a template of
the frame and the connection.  ``begin`` fills in the rest and writes; the answer comes back through
``SendAnswers``, which makes the receipt without making a command.  ``begin`` decides nothing and
judges nothing: whenever something is unusual it returns None before anything has happened, and the
ordinary path (``Packer``, ``Sender``) does the work or says what is wrong.  A send that fails on
the short way goes on there too, as its first failed try.

Topics are forgotten when a route changes or a connection closes, and prepared again by the next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from contrailmq._native.client.sends import QuickSend, SendAnswers, SendTemplate, property_text
from contrailmq.client.message import Message, Receipt, SendStatus
from contrailmq.client.names import check_topic, wrap
from contrailmq.client.producer.budget import Budget
from contrailmq.client.producer.outgoing import Outgoing
from contrailmq.client.producer.queue_choice import key_index
from contrailmq.client.producer.sender import Sender
from contrailmq.client.session import Session
from contrailmq.client.settings import ProducerSettings
from contrailmq.errors import ClientError, ContrailError, NetworkError, TooManyRequests
from contrailmq.net.connection import Connection
from contrailmq.protocol import properties as names
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command, Serialization
from contrailmq.protocol.ids import UniqueIds
from contrailmq.protocol.queue import MessageQueue

log = logging.getLogger(__name__)

_BODY_SIZE_MAX: Final = 16 * 1024  # larger ones are written from their own buffer
_TOPICS_MAX: Final = 4096
_INT_MAX: Final = 0x7FFFFFFF
_CODE: Final = int(RequestCode.SEND_MESSAGE_V2)
_RESERVED: Final = names.RESERVED_PROPERTIES
_MARKS: Final = ("\u27eaf\u27eb", "\u27eag\u27eb", "\u27eah\u27eb", "\u27eai\u27eb")


def answers() -> SendAnswers:
    """The lane for the connections of a producer."""
    return SendAnswers(Receipt, SendStatus.SEND_OK)


class QuickTopic:
    """What all sends to a topic share."""

    __slots__ = ("counter", "places")

    def __init__(
        self, places: list[tuple[MessageQueue, SendTemplate, Connection]], counter: int
    ) -> None:
        self.places = places
        self.counter = counter


class QuickSends:
    """Begins sends by the short way, for one producer."""

    def __init__(
        self,
        session: Session,
        sender: Sender,
        settings: ProducerSettings,
        *,
        ids: UniqueIds,
        budget: Budget,
    ) -> None:
        self._session = session
        self._sender = sender
        self._settings = settings
        self._ids = ids
        self._budget = budget
        self._now_ms: Callable[[], int] = session.world.clock.now_ms
        self._loop = asyncio.get_running_loop()
        self._topics: dict[str, QuickTopic] = {}
        self._timeout_s = settings.send_timeout_s
        self._body_size_end = min(
            settings.compress_over, settings.message_size_max + 1, _BODY_SIZE_MAX
        )
        namespace = session.settings.namespace
        instance = f"{names.PROPERTY_INSTANCE_ID}\x01{namespace}\x02" if namespace else ""
        self._before_id = f"{instance}{names.PROPERTY_UNIQUE_KEY}\x01"
        # Signing covers every field, and faults are noted by the ordinary path.
        self.enabled = session.settings.credentials is None and not settings.avoid_faults

    def forget(self) -> None:
        """A route has changed: prepare topics anew."""
        self._topics.clear()

    def begin(
        self, message: Message, timeout_s: float | None, key: str | None = None
    ) -> QuickSend | None:
        """Send now, taking room for it; None when it has to go the ordinary way.

        With a ``key`` its queue is fixed: ``finish`` and ``promise`` have to be told.
        """
        topic = self._topics.get(message.topic)
        if topic is None:
            topic = self._prepare(message.topic)
            if topic is None:
                return None
        body = message.body
        if type(body) is not bytes or not 0 < len(body) < self._body_size_end:
            return None
        flag, text = message.flag, property_text(message, _RESERVED)
        if text is None or type(flag) is not int or not 0 <= flag <= _INT_MAX:
            return None
        if key is None:
            index = topic.counter = topic.counter + 1
            index %= len(topic.places)
        else:
            index = key_index(key, len(topic.places))
        queue, template, connection = topic.places[index]
        if connection.close_reason is not None or connection.is_write_paused:
            self._topics.pop(message.topic, None)
            return None
        born_ms = self._now_ms()
        message_id = self._ids.at(born_ms)
        text = f"{text}{self._before_id}{message_id}\x02"
        try:
            encoded = text.encode()
        except UnicodeEncodeError:
            return None  # half a character: the ordinary path knows what Java makes of it
        size = len(body) + len(text) + 256
        if not self._budget.try_take(size):
            return None
        sent = QuickSend(self._loop.create_future(), message_id, queue, text, body)
        sent.flag = flag
        sent.size = size
        sent.begun = self._loop.time()
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        try:
            opaque = connection.calls.enter(sent, _CODE, timeout_s)
        except TooManyRequests:
            self._budget.give(size)
            return None
        connection.send((template.frame(opaque, 0, born_ms, flag, encoded, body),))
        return sent

    async def finish(
        self, sent: QuickSend, timeout_s: float | None, *, fixed: bool = False
    ) -> Receipt:
        """The receipt of a send that has begun, after more tries if need be and may be."""
        outcome: Receipt | Command | ContrailError
        try:
            try:
                outcome = await sent.future
            except ContrailError as error:
                outcome = error
            if isinstance(outcome, Receipt):
                return outcome
            return await self._go_on(sent, outcome, timeout_s, fixed=fixed)
        finally:
            self._budget.give(sent.size)

    def promise(self, sent: QuickSend, *, fixed: bool = False) -> asyncio.Future[Receipt]:
        """The same as a future; a task is needed only if the first try fails.

        The error of a future is logged, in case nobody fetches it.
        """
        receipt: asyncio.Future[Receipt] = self._loop.create_future()
        sent.future.add_done_callback(lambda done: self._answered(sent, receipt, done, fixed=fixed))
        return receipt

    def _answered(
        self,
        sent: QuickSend,
        receipt: asyncio.Future[Receipt],
        done: asyncio.Future[Receipt | Command],
        *,
        fixed: bool,
    ) -> None:
        error = done.exception()
        outcome = done.result() if error is None else error
        if isinstance(outcome, Receipt):
            self._budget.give(sent.size)
            if not receipt.done():
                receipt.set_result(outcome)
            return
        assert isinstance(outcome, Command | ContrailError)
        try:
            self._session.crew.spawn(self._keep(sent, receipt, outcome, fixed=fixed), name="send")
        except ClientError as closed:
            self._budget.give(sent.size)
            self._fail(sent, receipt, closed)

    async def _keep(
        self,
        sent: QuickSend,
        receipt: asyncio.Future[Receipt],
        outcome: Command | ContrailError,
        *,
        fixed: bool,
    ) -> None:
        """Keep a promise whose first try has failed."""
        try:
            found = await self._go_on(sent, outcome, None, fixed=fixed)
            if not receipt.done():
                receipt.set_result(found)
        except ContrailError as error:
            self._fail(sent, receipt, error)
        finally:
            self._budget.give(sent.size)
            receipt.cancel()  # if this task was; else it is done

    def _fail(
        self, sent: QuickSend, receipt: asyncio.Future[Receipt], error: ContrailError
    ) -> None:
        log.error("message not sent topic=%s error=%s", sent.queue.topic, error)
        if not receipt.done():
            receipt.set_exception(error)
            receipt.exception()  # it is logged, for those who do not fetch it

    async def _go_on(
        self,
        sent: QuickSend,
        outcome: Command | ContrailError,
        timeout_s: float | None,
        *,
        fixed: bool,
    ) -> Receipt:
        outgoing = Outgoing(sent.queue.topic, sent.body, sent.text, sent.message_id, flag=sent.flag)
        return await self._sender.go_on(
            outgoing, sent.queue, outcome, begun=sent.begun, timeout_s=timeout_s, fixed=fixed
        )

    def _prepare(self, name: str) -> QuickTopic | None:
        """Templates for all queues of a topic; None while something about it is not known yet."""
        if not self.enabled:
            return None
        check_topic(name, for_sending=True)
        route = self._session.routes.find_publish(wrap(self._session.settings.namespace, name))
        if route is None:
            return None
        places: list[tuple[MessageQueue, SendTemplate, Connection]] = []
        for queue in route.queues:
            try:
                address = self._session.writer(queue.broker_name)
            except NetworkError:
                return None
            connection = self._session.find_connection(address)
            template = self._template(queue)
            if connection is None or template is None:
                return None
            places.append((queue, template, connection))
        if len(self._topics) >= _TOPICS_MAX:
            self._topics.clear()
        start = self._session.world.rng.randrange(1 << 20)
        found = self._topics[name] = QuickTopic(places, start)
        return found

    def _template(self, queue: MessageQueue) -> SendTemplate | None:
        sample = Outgoing(queue.topic, b"", _MARKS[3], "")
        command = sample.command(self._sender.group, queue, born_ms=0, settings=self._settings)
        command.fields.update(f=_MARKS[0], g=_MARKS[1], h=_MARKS[2])
        command.serialization = self._session.settings.serialization
        return template_of(command)


def template_of(command: Command) -> SendTemplate | None:
    """Cut an encoded send at its marks; None when a mark occurs elsewhere in it too."""
    header = command.encode_head()[8:]
    is_binary = command.serialization == Serialization.ROCKETMQ
    pieces: list[bytes] = []
    for mark in _MARKS:
        before, found, header = header.partition(mark.encode())
        if not found or mark.encode() in header:
            return None
        if is_binary:
            before = before[:-4]  # the value's size
        pieces.append(before)
    if is_binary:
        return SendTemplate([*pieces, header], True)
    before, found, after = header.rpartition(b'"opaque":0,')
    if not found:
        return None
    return SendTemplate([*pieces, before + b'"opaque":', b"," + after], False)
