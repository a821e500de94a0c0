"""A peer that is name server and broker in one, and answers what a test tells it to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from contrailmq.clock import SystemClock
from contrailmq.net.connection import Connection
from contrailmq.net.dispatch import Dispatcher
from contrailmq.net.server import Server
from contrailmq.net.settings import ServerSettings
from contrailmq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.pull import PullMessageResponse
from contrailmq.protocol.message import encode_record

Answer = Callable[[Command], Command]


class Liar:
    """``async with Liar() as liar``; ``answers`` maps request codes to what it says."""

    def __init__(self, answers: dict[int, Answer] | None = None, *, queues: int = 1) -> None:
        self.answers = {int(code): answer for code, answer in (answers or {}).items()}
        self.asked: Counter[int] = Counter()
        self.queues = queues
        self.offset = 0  # the answer to every question for an offset
        self._server = Server(
            Dispatcher({}, default=self._answer), ServerSettings(), clock=SystemClock()
        )

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.port}"

    async def __aenter__(self) -> Liar:
        await self._server.start("127.0.0.1", 0)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._server.aclose()

    def _answer(self, request: Command, connection: Connection) -> Command:
        self.asked[request.code] += 1
        answer = self.answers.get(request.code)
        if answer is not None:
            return answer(request)
        if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            return request.reply(body=self.route().encode())
        return request.reply(fields={"offset": str(self.offset)})

    def route(self) -> TopicRouteData:
        """The route of every topic: here."""
        return TopicRouteData(
            broker_datas=[
                BrokerData(broker_addrs={0: self.address}, broker_name="liar", cluster="c")
            ],
            queue_datas=[
                QueueData(
                    broker_name="liar",
                    perm=6,
                    read_queue_nums=self.queues,
                    write_queue_nums=self.queues,
                )
            ],
        )


def pulled(request: Command, code: int, next_offset: int, *, records: bytes = b"") -> Command:
    """An answer to a pull."""
    header = PullMessageResponse(
        suggest_which_broker_id=0, next_begin_offset=next_offset, min_offset=0, max_offset=1 << 40
    )
    return request.reply(header, code=code, body=records)


def record(offset: int, body: bytes = b"x") -> bytes:
    """A record of the topic T."""
    return bytes(
        encode_record(
            topic="T",
            body=body,
            properties=b"",
            born_ms=1,
            born_host=bytes(8),
            store_host=bytes(8),
            queue_offset=offset,
        )
    )
