"""``contrail proxy`` over brokers in virtual time: the same calls, as remoting requests."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path

from contrailmq.grpc import messages as m
from contrailmq.grpc.calls_route import Places
from contrailmq.grpc.service import Service
from contrailmq.net.client import RemotingClient
from contrailmq.protocol.codes import RequestCode
from contrailmq.proxy.cluster import ClusterBrokers
from contrailmq.proxy.directory import Directory
from contrailmq.proxy.producers import Producers
from contrailmq.testing.sim import SimClock
from testkit.broker_world import NAMESRV_IPS, World, now, run
from testkit.grpc_world import ASKED, Door, consumer, entry, message, producer, receiving, system_of

TOPICS = {"T": "", "F": "FIFO", "D": "DELAY", "X": "TRANSACTION"}


def play(directory: Path, scenario: Callable[[Door], Awaitable[None]], **conf: str) -> None:
    async def world(world: World) -> None:
        address = f"{NAMESRV_IPS[0]}:9876"
        async with (
            world.name_server() as _,
            world.broker(namesrvAddr=address) as broker,
            contextlib.AsyncExitStack() as stack,
        ):
            clock, rng = SimClock(), world.rng
            producers = Producers("proxy@1", rng)
            handlers = {int(RequestCode.CHECK_TRANSACTION_STATE): producers.check}
            network = world.network.host("10.0.3.1")
            client = RemotingClient(clock=clock, network=network, rng=rng, handlers=handlers)
            stack.push_async_callback(client.aclose)
            known = Directory(client, [address], clock=clock, rng=rng)
            producers.name_of = known.name_of
            brokers = ClusterBrokers(known, producers, clock=clock, rng=rng)
            stack.push_async_callback(brokers.aclose)
            door = Door(broker, service=Service(brokers, clock, places=Places()))
            for name, kind in TOPICS.items():
                door.topic(name, kind)
            door.group("ordered", consume_message_orderly=True)
            await broker.parts.registration.register()
            beats = asyncio.ensure_future(producers.run(client, lambda: known.primaries))
            await scenario(door)
            beats.cancel()

    run(1, directory, world, **conf)


def test_messages_go_through_a_proxy_and_are_settled(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        answer = await door.send(message("T", b"one", id="A", tag="t", user={"a": "1"}))
        assert answer.entries == [m.SendResultEntry(m.Status(20000, "OK"), "A", "A", 0)]
        code, (got,) = await door.receive("T")
        assert (code, got.body, got.user_properties) == (20000, b"one", {"a": "1"})
        assert len((system_of(got).receipt_handle or "").split(" ")) == 9
        kind = m.ChangeInvisibleDurationResponse
        given = entry(got)
        request = m.ChangeInvisibleDurationRequest(
            m.Resource(name="g"), got.topic, given.receipt_handle, m.Moment(1), given.message_id
        )
        changed = await door.call("ChangeInvisibleDuration", request, kind)
        assert changed.status is not None and changed.status.code == 20000
        _, (again,) = await door.receive("T", long_polling_timeout=m.Moment(20))
        assert system_of(again).delivery_attempt == 2
        assert await door.ack(again) == 20000
        await asyncio.sleep(40)
        assert (await door.receive("T"))[0] == 40401

    play(tmp_path, scenario)


def test_a_proxy_refuses_as_a_broker_does(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        for wrong, code in (
            (message("missing"), 40402), (message("T", message_group="g"), 40014),
            (message("T", tag="|"), 40004),
        ):  # fmt: skip
            answer = await door.send(wrong)
            assert answer.status is not None and answer.status.code == code
        assert (await door.receive("missing"))[0] == 40402
        request = m.QueryRouteRequest(m.Resource(name="T"), ASKED)
        route = await door.call("QueryRoute", request, m.QueryRouteResponse)
        broker = route.message_queues[0].broker
        assert broker == m.Broker("broker-a", 0, ASKED), "the proxy stands for all brokers"
        far = SimClock().now_ms()
        handle = f"0 {far} 60000 0 0 nobody 0 0 0"
        acks = m.AckMessageRequest(
            m.Resource(name="g"), m.Resource(name="T"), [m.AckMessageEntry("x", handle)]
        )
        answer = await door.call("AckMessage", acks, m.AckMessageResponse)
        assert answer.status is not None and answer.status.code == 40000

    play(tmp_path, scenario)


def test_order_delay_recall_and_dead_letters_through_a_proxy(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        for number in range(2):
            await door.send(message("F", b"%d" % number, id=str(number), message_group="y"))
        _, (first,) = await door.receive("F", "ordered", batch_size=1, attempt_id="a")
        assert (first.body, system_of(first).queue_id) == (b"0", 2)
        assert (await door.receive("F", "ordered", batch_size=1, attempt_id="b"))[0] == 40401
        assert await door.ack(first, "ordered") == 20000
        _, (second,) = await door.receive("F", "ordered", batch_size=1, attempt_id="c")
        assert second.body == b"1"
        due = m.Moment.of_ms(SimClock().now_ms() + 8000)
        answer = await door.send(
            message("D", b"late", id="L", message_type=3, delivery_timestamp=due)
        )
        recall = m.RecallMessageRequest(m.Resource(name="D"), answer.entries[0].recall_handle)
        recalled = await door.call("RecallMessage", recall, m.RecallMessageResponse)
        assert recalled == m.RecallMessageResponse(m.Status(20000, "OK"), "L")
        await door.send(message("T", b"bad", id="B"))
        _, (got,) = await door.receive("T")
        given = entry(got)
        request = m.ForwardRequest(
            m.Resource(name="g"), got.topic, given.receipt_handle, given.message_id, 1, 16
        )
        name = "ForwardMessageToDeadLetterQueue"
        assert await door.call(name, request, m.StatusResponse) == m.StatusResponse(
            m.Status(20000, "0")
        )
        await door.broker.parts.registration.register()
        _, (dead,) = await door.receive("%DLQ%g", "other")
        assert dead.body == b"bad"

    play(tmp_path, scenario)


def test_a_broker_asks_a_producer_behind_a_proxy(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        stream, _ = await door.telemetry(producer("X"))
        answer = await door.send(message("X", b"half", id="H", message_type=4))
        assert answer.entries[0].transaction_id.endswith("@broker-a")
        orphan = (await stream.hear()).recover_orphaned_transaction_command
        assert orphan is not None and orphan.message is not None
        assert orphan.message.body == b"half"
        request = m.EndTransactionRequest(m.Resource(name="X"), "H", orphan.transaction_id, 1, 2)
        ended = await door.call("EndTransaction", request, m.StatusResponse)
        assert ended.status is not None and ended.status.code == 20000
        _, (got,) = await door.receive("X")
        assert got.body == b"half"
        await stream.close()

    play(tmp_path, scenario, transactionTimeOut="2000", transactionCheckInterval="3000")


def test_what_is_found_for_a_caller_that_left_comes_back(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        stream, _ = await door.telemetry(consumer("T"))
        call = door.make("ReceiveMessage", timeout_s=25)
        task = door.start(call, receiving("T", long_polling_timeout=m.Moment(20)))
        await asyncio.sleep(2)
        task.cancel()
        await asyncio.wait([task])
        await door.send(message("T", b"late", id="late"))  # the broker gives it to the old request
        began = now()
        found: list[m.WireMessage] = []
        while not found and now() - began < 30:
            found = (await door.receive("T", long_polling_timeout=m.Moment(20)))[1]
        assert [each.body for each in found] == [b"late"]
        await stream.close()

    play(tmp_path, scenario)
