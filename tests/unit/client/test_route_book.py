"""The book of routes: shared questions, brokers that come, move and go, and helpful refusals."""

from __future__ import annotations

import asyncio
import random

import pytest

from contrailmq.client.name_servers import NameServers
from contrailmq.client.route_book import RouteBook
from contrailmq.errors import NoRoute
from contrailmq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from contrailmq.protocol.command import Command


class Answers:
    """A name server that knows what it is told."""

    def __init__(self) -> None:
        self.routes: dict[str, TopicRouteData] = {}
        self.asked: list[str] = []

    async def call(self, address: str, command: Command, *, timeout_s: float) -> Command:
        topic = command.fields["topic"]
        self.asked.append(topic)
        await asyncio.sleep(0)
        if topic not in self.routes:
            return Command(17, remark="no route")
        return Command(0, body=self.routes[topic].encode())


def route(*brokers: tuple[str, str], perm: int = 6) -> TopicRouteData:
    """A route over masters: name and address."""
    return TopicRouteData(
        broker_datas=[
            BrokerData(broker_name=name, cluster="c", broker_addrs={0: address})
            for name, address in brokers
        ],
        queue_datas=[
            QueueData(broker_name=name, perm=perm, read_queue_nums=2, write_queue_nums=2)
            for name, _ in brokers
        ],
    )


def make() -> tuple[RouteBook, Answers]:
    answers = Answers()
    servers = NameServers(["ns:9876"], caller=answers, rng=random.Random(1))
    return RouteBook(servers, timeout_s=1.0), answers


def test_one_question_for_all_who_ask_at_once() -> None:
    async def run() -> None:
        book, answers = make()
        answers.routes["T"] = route(("a", "h:1"))
        found = await asyncio.gather(*(book.refresh("T") for _ in range(10)))
        assert found == [True] * 10
        assert answers.asked == ["T"]

    asyncio.run(run())


def test_brokers_move_and_go() -> None:
    async def run() -> None:
        book, answers = make()
        changes: list[str] = []
        book.on_change = changes.append
        answers.routes = {"T": route(("a", "h:1"), ("b", "h:2")), "U": route(("a", "h:1"))}
        await book.refresh("T")
        await book.refresh("U")
        assert book.brokers() == {"a": {0: "h:1"}, "b": {0: "h:2"}}
        await book.refresh("T")
        assert changes == ["T", "U"]  # nothing new, nobody told
        answers.routes["T"] = route(("a", "h:9"))
        await book.refresh("T")
        assert book.brokers() == {"a": {0: "h:9"}}
        del answers.routes["T"]
        assert not await book.refresh("T")
        assert book.find_master("a") == "h:9"  # an old route is better than none

    asyncio.run(run())


def test_a_new_topic_is_sent_to_by_the_default_route() -> None:
    async def run() -> None:
        book, answers = make()
        with pytest.raises(NoRoute, match="create it with `contrail topic create T -n"):
            await book.publish("T", default_topic="TBW102", queue_count=4)
        answers.routes["TBW102"] = route(("a", "h:1"))
        found = await book.publish("T", default_topic="TBW102", queue_count=1)
        assert [(q.topic, q.queue_id) for q in found.queues] == [("T", 0)]
        answers.routes["R"] = route(("a", "h:1"), perm=4)
        with pytest.raises(NoRoute, match="no queue that can be written"):
            await book.publish("R", default_topic="TBW102", queue_count=1)

    asyncio.run(run())
