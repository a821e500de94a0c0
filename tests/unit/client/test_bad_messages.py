"""One message that cannot be opened is that message's trouble; a broker that lies is braked."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any, Literal

import pytest

from contrailmq import ConsumerSettings, LitePullConsumer, PullConsumer, PushConsumer, blocking
from contrailmq.client.message import ReceivedMessage
from contrailmq.protocol.codes import RequestCode, ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.queue import MessageQueue
from contrailmq.store.types import NewMessage
from contrailmq.testing.cluster import LocalCluster
from testkit.client_scenarios import until
from testkit.liar import Liar, pulled, record

# The first uvloop of a process opens a pipe that libuv keeps for its signals.
blocking.LoopThread().close()
BAD = ("no zlib", "unknown compression", "wrong checksum")


async def put_bad(cluster: LocalCluster) -> None:
    """Seven messages in one queue: number 1, 3 and 5 cannot be opened."""
    await cluster.create_topic("T", queues=1)
    store = cluster.brokers[0].broker.parts.store
    flags = {1: 1, 3: 1 | 5 << 8}
    for number in range(7):
        message = NewMessage("T", 0, b"number %d" % number, b"", sys_flag=flags.get(number, 0))
        appended = store.put(message)
        if number == 5:
            store.log.settle()
            segment = store.log.segments.find(appended.offset)
            assert segment is not None
            at = appended.offset % store.log.segments.size + 88
            assert segment.buffer[at : at + 8] == b"number 5"
            segment.buffer[at + 7] = ord("9")


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("kind", ["dead_letter", "deliver", "skip"])
def test_a_push_consumer_gets_the_neighbours(
    kind: Literal["dead_letter", "deliver", "skip"],
    ordered: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with LocalCluster() as cluster:
            await put_bad(cluster)
            seen: list[ReceivedMessage] = []
            async with PushConsumer(
                "g",
                topics="T",
                name_servers=cluster.name_servers,
                start_from="first",
                ordered=ordered,
                handler=seen.append,
                settings=ConsumerSettings(on_bad_message=kind),
            ):
                await until(lambda: len(seen) >= (7 if kind == "deliver" else 4))
                await asyncio.sleep(0.05)
            good = [message for message in seen if message.problem is None]
            assert [m.body for m in good] == [b"number %d" % n for n in (0, 2, 4, 6)]
            bad = [message.offset for message in seen if message.problem is not None]
            assert bad == ([1, 3, 5] if kind == "deliver" else [])
            store = cluster.brokers[0].broker.parts.store
            assert store.bounds("%DLQ%g", 0)[1] == (3 if kind == "dead_letter" else 0)
            for offset in (1, 3, 5):
                assert f"offset={offset} " in caplog.text

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())


def test_lite_and_plain_pulls_get_the_neighbours() -> None:
    async def main() -> None:
        async with LocalCluster() as cluster:
            await put_bad(cluster)
            servers = cluster.name_servers
            queue = MessageQueue("T", "broker-a", 0)
            async with LitePullConsumer("g", name_servers=servers, start_from="first") as lite:
                await lite.assign([queue])
                bodies: list[bytes] = []
                while len(bodies) < 4:
                    bodies += [message.body for message in await lite.poll(timeout_s=5)]
            assert bodies == [b"number %d" % n for n in (0, 2, 4, 6)]
            async with PullConsumer("g2", name_servers=servers) as plain:
                answer = await plain.pull(queue, 0)
            problems = {m.offset: m.problem for m in answer.messages if m.problem is not None}
            assert sorted(problems) == [1, 3, 5]
            assert "checksum" in problems[5]
            assert answer.next_offset == 7

    asyncio.run(main())


Lie = Callable[[Command], Command]
OK, MOVED = int(ResponseCode.SUCCESS), int(ResponseCode.PULL_OFFSET_MOVED)
EMPTY, NO_MATCH = int(ResponseCode.PULL_NOT_FOUND), int(ResponseCode.PULL_RETRY_IMMEDIATELY)


def _asked(request: Command) -> int:
    return int(request.fields["queueOffset"])


LIES: dict[str, Lie] = {
    "next offset stays": lambda r: pulled(r, OK, _asked(r), records=record(_asked(r))),
    "next offset goes back": lambda r: pulled(r, OK, 0, records=record(_asked(r))),
    "next offset is negative": lambda r: pulled(r, OK, -5, records=record(_asked(r))),
    "found without records": lambda r: pulled(r, OK, _asked(r)),
    "moved in place": lambda r: pulled(r, MOVED, _asked(r)),
    "moved there and back": lambda r: pulled(r, MOVED, 7 - _asked(r)),
    "nothing, at once": lambda r: pulled(r, EMPTY, _asked(r)),
    "no match, for ever": lambda r: pulled(r, NO_MATCH, _asked(r)),
    "bytes that are no record": lambda r: pulled(r, OK, _asked(r) + 1, records=b"\0" * 200),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_broker_that_leads_nowhere_is_not_asked_all_the_time(
    lie: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        pulls = [RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE]
        async with Liar(dict.fromkeys(pulls, LIES[lie])) as liar:
            liar.offset = 5
            settings = ConsumerSettings(error_pause_s=0.2)
            consumer = LitePullConsumer("g", name_servers=liar.address, settings=settings)
            seen: list[Any] = []
            async with consumer:
                await consumer.assign([MessageQueue("T", "liar", 0)])
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(1.0):
                        while True:
                            seen += await consumer.poll(timeout_s=0.5)
            assert sum(liar.asked[int(code)] for code in pulls) <= 16
            assert len(seen) <= 1
        assert len(caplog.records) <= 8

    asyncio.run(main())


def test_damage_in_the_middle_of_an_answer_ends_it_and_is_stepped_over() -> None:
    async def main() -> None:
        def answer(request: Command) -> Command:
            offset = _asked(request)
            if offset >= 4:
                return pulled(request, EMPTY, offset)
            parts = [b"\0" * 100 if n == 2 else record(n, b"%d" % n) for n in range(offset, 4)]
            return pulled(request, OK, 4, records=b"".join(parts))

        pulls = [RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE]
        async with Liar(dict.fromkeys(pulls, answer)) as liar:
            settings = ConsumerSettings(error_pause_s=0.01)
            async with LitePullConsumer(
                "g", name_servers=liar.address, settings=settings, start_from="first"
            ) as consumer:
                queue = MessageQueue("T", "liar", 0)
                await consumer.assign([queue])
                bodies: list[bytes] = []
                while len(bodies) < 3:
                    bodies += [message.body for message in await consumer.poll(timeout_s=2)]
            assert bodies == [b"0", b"1", b"3"]

    asyncio.run(asyncio.wait_for(main(), 20))
