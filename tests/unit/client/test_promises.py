"""Promises of consumers that were broken once: where they begin, what they log and let go."""

from __future__ import annotations

import asyncio
import logging

import pytest

from contrailmq import ConsumerSettings, Message, Producer, PushConsumer, blocking
from contrailmq.client.message import ReceivedMessage
from contrailmq.store.types import NewMessage
from contrailmq.testing.cluster import LocalCluster
from testkit.client_scenarios import until

# The first uvloop of a process opens a pipe that libuv keeps for its signals.
blocking.LoopThread().close()


def test_a_new_group_that_starts_last_begins_at_the_end() -> None:
    async def main() -> None:
        async with (
            LocalCluster() as cluster,
            Producer("p", name_servers=cluster.name_servers) as producer,
        ):
            await cluster.create_topic("T", queues=2)
            for number in range(20):
                await producer.send(Message("T", b"old %d" % number))
            seen: list[bytes] = []
            async with PushConsumer(
                "g",
                topics="T",
                name_servers=cluster.name_servers,
                start_from="last",
                handler=lambda message: seen.append(message.body),
                settings=ConsumerSettings(rebalance_interval_s=0.2),
            ) as consumer:
                await consumer.wait_assigned()
                await producer.send(Message("T", b"new"))
                await until(lambda: b"new" in seen)
                assert seen == [b"new"]
                # A queue that is added later is read from its beginning.
                await cluster.create_topic("T", queues=3)
                store = cluster.brokers[0].broker.parts.store
                store.put(NewMessage("T", 2, b"first of a new queue"))
                await consumer._engine._session.routes.refresh("T")
                await until(lambda: b"first of a new queue" in seen)

    asyncio.run(main())


def test_dead_letters_are_logged_with_attempt_keys_and_group(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with (
            LocalCluster() as cluster,
            Producer("p", name_servers=cluster.name_servers) as producer,
        ):
            await cluster.create_topic("T", queues=1)
            await producer.send(Message("T", b"bad", keys=["order-7"]))

            def handle(message: ReceivedMessage) -> None:
                raise ValueError("no")

            async with PushConsumer(
                "g",
                topics="T",
                name_servers=cluster.name_servers,
                start_from="first",
                handler=handle,
                settings=ConsumerSettings(retries_max=0),
            ):
                await until(lambda: "dead letter: group=g topic=T" in caplog.text)
            assert "becomes a dead letter" in caplog.text
            assert "will be tried again" not in caplog.text
            assert "keys=['order-7'] attempt=1" in caplog.text
            assert cluster.brokers[0].broker.parts.store.bounds("%DLQ%g", 0)[1] == 1

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())


@pytest.mark.parametrize("ordered", [False, True])
def test_a_handler_may_make_a_dead_letter_at_the_first_attempt(ordered: bool) -> None:
    async def main() -> None:
        async with (
            LocalCluster() as cluster,
            Producer("p", name_servers=cluster.name_servers) as producer,
        ):
            await cluster.create_topic("T", queues=1)
            for body in ("poison", "good"):
                await producer.send(Message.json("T", {"kind": body}))
            seen: list[str] = []

            def handle(message: ReceivedMessage) -> None:
                seen.append(message.json()["kind"])
                if seen[-1] == "poison":
                    message.dead_letter()

            async with PushConsumer(
                "g",
                topics="T",
                name_servers=cluster.name_servers,
                start_from="first",
                handler=handle,
                ordered=ordered,
            ):
                store = cluster.brokers[0].broker.parts.store
                await until(lambda: store.bounds("%DLQ%g", 0)[1] == 1 and "good" in seen)
            assert sorted(seen) == ["good", "poison"]
            assert store.bounds("%RETRY%g", 0)[1] == 0

    asyncio.run(main())


def test_a_reply_to_a_caller_that_is_gone_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with (
            LocalCluster() as cluster,
            Producer("p", name_servers=cluster.name_servers) as producer,
        ):
            await cluster.create_topic("T", queues=1)
            asked: list[ReceivedMessage] = []
            async with PushConsumer(
                "g",
                topics="T",
                name_servers=cluster.name_servers,
                start_from="first",
                handler=asked.append,
            ):
                async with Producer("asker", name_servers=cluster.name_servers) as asker:
                    request = asyncio.ensure_future(asker.request(Message("T", b"?"), timeout_s=30))
                    await until(lambda: len(asked) == 1)
                    request.cancel()
                assert await producer.reply(asked[0], b"too late") is None
            assert "a reply was not delivered" in caplog.text

    asyncio.run(main())


def test_an_ordered_member_that_closes_gives_up_queues_it_was_handing_over() -> None:
    async def main() -> None:
        async with (
            LocalCluster() as cluster,
            Producer("p", name_servers=cluster.name_servers) as producer,
        ):
            await cluster.create_topic("T", queues=4)
            for queue in await producer.queues("T"):
                await producer.send(Message("T", b"x"), queue=queue)
            held = asyncio.Event()

            async def slow(message: ReceivedMessage) -> None:
                held.set()
                await asyncio.sleep(0.5)

            def member(handler: object) -> PushConsumer:
                return PushConsumer(
                    "g",
                    topics="T",
                    name_servers=cluster.name_servers,
                    start_from="first",
                    ordered=True,
                    handler=handler,  # type: ignore[arg-type]
                    settings=ConsumerSettings(rebalance_interval_s=0.3),
                )

            first = member(slow)
            await first.start()
            await held.wait()
            second = member(lambda message: None)
            await second.start()
            await until(lambda: len(first._engine._handing) > 0 or len(first.assignment) <= 2)
            await first.aclose()
            await until(lambda: len(second.assignment) == 4, timeout_s=5)
            await second.aclose()

    asyncio.run(main())
