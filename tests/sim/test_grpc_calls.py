"""The calls of gRPC clients over a real broker, in virtual time, without a transport."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from contrailmq.grpc import messages as m
from contrailmq.grpc.call import GrpcError, GrpcStatus
from contrailmq.grpc.messages_settings import (
    Nonce,
    Settings,
    TelemetryCommand,
    ThreadStackTrace,
)
from contrailmq.net.client import RemotingClient
from contrailmq.protocol.bodies.clients import ConsumerRunningInfo
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.compression import Compression, compress
from contrailmq.testing.sim import SimClock
from testkit.broker_world import ADDRESS, World, now, run, send
from testkit.grpc_world import (
    ASKED,
    Door,
    answers,
    consumer,
    entry,
    message,
    producer,
    receiving,
    system_of,
)

Scenario = Callable[[Door], Awaitable[None]]


def play(directory: Path, scenario: Scenario, **conf: str) -> None:
    async def world(world: World) -> None:
        async with world.broker(namesrvAddr="") as broker:
            await scenario(Door(broker))

    run(1, directory, world, **conf)


def play_with_client(
    directory: Path, scenario: Callable[[Door, RemotingClient], Awaitable[None]], **conf: str
) -> None:
    async def world(world: World) -> None:
        async with world.broker(namesrvAddr="") as broker, world.client() as client:
            await scenario(Door(broker), client)

    run(1, directory, world, **conf)


def test_a_message_is_received_as_it_was_sent_and_settled(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        door.topic("T")
        sent = message(
            "T", b"body", id="01FF", tag="blue", keys=["k1", "k2"], user={"a": "1", "ж": "я"},
            born_host="host-7", trace_context="trace",
        )  # fmt: skip
        answer = await door.send(sent)
        assert answer.status == m.Status(20000, "OK")
        assert answer.entries == [m.SendResultEntry(m.Status(20000, "OK"), "01FF", "01FF", 0)]
        code, (got,) = await door.receive("T")
        assert code == 20000
        assert (got.topic, got.body) == (m.Resource(name="T"), b"body")
        assert got.user_properties == {"a": "1", "ж": "я"}
        system = system_of(got)
        assert (system.tag, system.keys, system.message_id) == ("blue", ["k1", "k2"], "01FF")
        digest = hashlib.md5(b"body", usedforsecurity=False).hexdigest().upper()
        assert system.body_digest == m.Digest(2, digest)
        assert (system.body_encoding, system.message_type) == (1, 1)
        assert system.born_timestamp == system_of(sent).born_timestamp
        assert (system.born_host, system.store_host) == ("host-7", ADDRESS)
        assert (system.delivery_attempt, system.trace_context) == (1, "trace")
        assert system.receipt_handle is not None
        assert len(system.receipt_handle.split(" ")) == 9
        assert await door.ack(got) == 20000
        assert (await door.receive("T", long_polling_timeout=m.Moment(20)))[0] == 40401
        await asyncio.sleep(40)
        assert (await door.receive("T"))[0] == 40401, "it comes back in spite of the ack"

    play(tmp_path, scenario)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"body": b""}, 41302),
        ({"body": bytes(65537)}, 41301),
        ({"user": {"UNIQ_KEY": "x"}}, 40007),
        ({"user": {"a\x00": "x"}}, 40007),
        ({"user": {"a": "\x7f"}}, 40007),
        ({"user": {str(n): "x" for n in range(129)}}, 43101),
        ({"user": {"a": "x" * 16384}}, 43101),
        ({"tag": "a|b"}, 40004),
        ({"tag": " "}, 40004),
        ({"keys": [" "]}, 40005),
        ({"keys": ["a\x01"]}, 40005),
        ({"id": ""}, 40009),
        ({"id": " "}, 40009),
        ({"orphaned_transaction_recovery_duration": m.Moment(3601), "message_type": 4}, 40000),
        ({"delivery_timestamp": m.Moment(10**10)}, 40012),
        ({"message_group": "g" * 64}, 40006),
        ({"message_group": "\t"}, 40006),
        ({"message_group": "g"}, 40014),
        ({"message_type": 4}, 40014),
        ({"topic": "missing"}, 40402),
        ({"topic": "read-only"}, 40300),
        ({"topic": ""}, 40002),
        ({"topic": "a b"}, 40002),
        ({"topic": "rmq_sys_x"}, 40002),
    ],
)  # fmt: skip
def test_a_message_that_cannot_be_is_refused(
    tmp_path: Path, change: dict[str, Any], code: int
) -> None:
    async def scenario(door: Door) -> None:
        door.topic("T")
        door.topic("read-only", perm=4)
        given = {"topic": "T", **change}
        answer = await door.send(message(given.pop("topic"), **given))
        assert answer.status is not None
        assert (answer.status.code, answer.entries) == (code, [])

    play(tmp_path, scenario)


def test_checks_have_an_order_and_calls_need_a_client_id(tmp_path: Path) -> None:
    async def code_of(door: Door, *messages: m.WireMessage, **more: str) -> int:
        answer = await door.send(*messages, **more)
        assert answer.status is not None
        return answer.status.code

    async def scenario(door: Door) -> None:
        door.topic("T")
        door.topic("U")
        assert await code_of(door) == 40016
        assert await code_of(door, message("T"), message("U")) == 40016
        assert await code_of(door, message("T"), client="") == 40017
        assert await code_of(door, message("T"), client=" ") == 40017
        assert await code_of(door, message("T", tag="|", id="", keys=[" "])) == 40004
        assert await code_of(door, message("missing", message_group="g", keys=[" "])) == 40005
        answer = await door.send(message("T", b"1", id="A"), message("T", b"2", id="B"))
        assert [each.message_id for each in answer.entries] == ["A", "B"]
        assert [each.offset for each in answer.entries] == [0, 1], "one queue, in order"

    play(tmp_path, scenario)


def test_routes_name_the_endpoints_by_which_the_client_came(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        door.topic("T", queues=2)
        door.topic("F", "FIFO")
        door.topic("M", "MIXED", perm=4)
        request = m.QueryRouteRequest(m.Resource(name="T"), ASKED)
        answer = await door.call("QueryRoute", request, m.QueryRouteResponse)
        broker = m.Broker("broker-a", 0, ASKED)
        assert answer.status == m.Status(20000, "OK")
        assert answer.message_queues == [
            m.MessageQueue(m.Resource(name="T"), number, 4, broker, [1]) for number in (0, 1)
        ]
        for name, types, permission in (("F", [2], 4), ("M", [1, 2, 3, 4], 2)):
            request = m.QueryRouteRequest(m.Resource(name=name), None)
            answer = await door.call("QueryRoute", request, m.QueryRouteResponse)
            queue = answer.message_queues[0]
            assert (queue.accept_message_types, queue.permission) == (types, permission)
            assert queue.broker == m.Broker(
                "broker-a", 0, m.Endpoints(1, [m.Address("10.0.0.1", 8081)])
            )
        for name, code in (("missing", 40402), ("", 40002)):
            request = m.QueryRouteRequest(m.Resource(name=name), ASKED)
            answer = await door.call("QueryRoute", request, m.QueryRouteResponse)
            assert answer.status is not None and answer.status.code == code

    play(tmp_path, scenario)


def test_push_consumers_receive_from_whole_brokers_and_ordered_ones_from_queues(
    tmp_path: Path,
) -> None:
    async def scenario(door: Door) -> None:
        door.topic("T", queues=3)
        door.topic("dark", perm=2)
        door.group("ordered", consume_message_orderly=True)
        for group, ids in (("g", [-1]), ("ordered", [0, 1, 2])):
            request = m.QueryAssignmentRequest(m.Resource(name="T"), m.Resource(name=group), ASKED)
            answer = await door.call("QueryAssignment", request, m.QueryAssignmentResponse)
            queues = [each.message_queue for each in answer.assignments]
            assert [queue.id for queue in queues if queue] == ids
        for topic, group, code in (
            ("dark", "g", 40300), ("missing", "g", 40402), ("T", "", 40003), ("T", "a b", 40003),
            ("T", "CID_RMQ_SYS_x", 40003),
        ):  # fmt: skip
            request = m.QueryAssignmentRequest(
                m.Resource(name=topic), m.Resource(name=group), ASKED
            )
            answer = await door.call("QueryAssignment", request, m.QueryAssignmentResponse)
            assert answer.status is not None and answer.status.code == code

    play(tmp_path, scenario)


def test_settings_are_answered_with_the_servers_values(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        door.group("g", retry_max_times=3, consume_message_orderly=True)
        stream, settings = await door.telemetry(producer("T"))
        assert settings.publishing is not None and settings.backoff_policy is not None
        assert settings.publishing.max_body_size == 65536
        assert settings.publishing.validate_message_type
        assert settings.backoff_policy.max_attempts == 3
        assert settings.metric is not None and not settings.metric.on
        producers = door.broker.parts.tables.producers
        assert [member.client_id for member in producers.members("T")] == ["c1"]
        await stream.close()
        stream, settings = await door.telemetry(consumer("T"), client="c2")
        assert settings.subscription is not None and settings.backoff_policy is not None
        assert settings.subscription.fifo is True
        assert settings.subscription.receive_batch_size == 32
        assert settings.backoff_policy.max_attempts == 4
        backoff = settings.backoff_policy.customized_backoff
        assert backoff is not None
        assert [each.seconds for each in backoff.next][:5] == [1, 5, 10, 30, 60]
        assert len(backoff.next) == 18
        found = door.broker.parts.tables.consumers.find("g")
        assert found is not None and found.consume_type == "CONSUME_ACTIVELY"
        await stream.close()
        for wrong in (Settings(1), producer("a b"), consumer("T", "a b"), consumer("T", "")):
            with pytest.raises(GrpcError) as caught:
                await door.telemetry(wrong, client="c3")
            assert caught.value.status == GrpcStatus.INVALID_ARGUMENT

    play(tmp_path, scenario)


def test_heartbeats_need_settings_and_a_silent_client_is_dropped(tmp_path: Path) -> None:
    async def beat(door: Door, group: str) -> int:
        request = m.HeartbeatRequest(m.Resource(name=group) if group else None, 3)
        answer = await door.call("Heartbeat", request, m.StatusResponse)
        assert answer.status is not None
        return answer.status.code

    async def scenario(door: Door) -> None:
        consumers = door.broker.parts.tables.consumers
        assert await beat(door, "g") == 40015
        stream, _ = await door.telemetry(consumer("T"))
        assert await beat(door, "g") == 20000
        assert await beat(door, "a b") == 40003
        task = asyncio.ensure_future(door.service.run())
        for _ in range(20):
            await asyncio.sleep(10)
            assert await beat(door, "g") == 20000
        await stream.close()
        assert consumers.find("g") is not None, "a lost stream is no goodbye"
        await asyncio.sleep(140)
        assert consumers.find("g") is None
        assert await beat(door, "g") == 40015
        task.cancel()
        stream, _ = await door.telemetry(consumer("T"))
        request = m.TerminationRequest(m.Resource(name="g"))
        answer = await door.call("NotifyClientTermination", request, m.StatusResponse)
        assert answer.status is not None and answer.status.code == 20000
        assert consumers.find("g") is None
        await stream.close()

    play(tmp_path, scenario)


def test_receives_wait_and_are_answered_when_a_message_comes(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        door.topic("T")
        call = door.make("ReceiveMessage", timeout_s=25)
        task = door.start(call, receiving("T", long_polling_timeout=m.Moment(20)))
        await asyncio.sleep(3)
        assert call.answers.empty()
        await door.send(message("T"))
        began = now()
        await task
        assert now() - began < 1
        code, messages = answers(call)
        assert (code, len(messages)) == (20000, 1)
        began = now()
        assert (await door.receive("T", long_polling_timeout=m.Moment(1)))[0] == 40401
        assert 4.5 < now() - began < 5.5, "five seconds at the least"

    play(tmp_path, scenario)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"invisible_duration": m.Moment(5)}, 40011),
        ({"invisible_duration": m.Moment(12 * 3600 + 1)}, 40011),
        ({"timeout_s": 3}, 40018),
        ({"topic": "missing"}, 40402),
        ({"topic": ""}, 40002),
        ({"group": ""}, 40003),
        ({"filter_expression": m.FilterExpression(2, "")}, 40010),
        ({"filter_expression": m.FilterExpression(1, "||")}, 40010),
        ({"filter_expression": m.FilterExpression(2, "a >")}, 50001),
    ],
)
def test_a_receive_that_cannot_be_is_refused(
    tmp_path: Path, change: dict[str, Any], code: int
) -> None:
    async def scenario(door: Door) -> None:
        door.topic("T")
        assert await door.receive(**{"topic": "T", **change}) == (code, [])

    play(tmp_path, scenario, enablePropertyFilter="true")


def test_a_receive_whose_caller_left_gives_its_messages_back(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        door.topic("T", queues=1)
        for number in range(3):
            await door.send(message("T", b"%d" % number, id=str(number)))
        call = door.make("ReceiveMessage", timeout_s=25)
        call.is_gone = True  # what it found cannot be written
        with pytest.raises(Exception, match="gone"):
            await door.start(call, receiving("T"))
        found = []
        while len(found) < 3:
            found += (await door.receive("T", long_polling_timeout=m.Moment(20)))[1]
        assert sorted(each.body for each in found) == [b"0", b"1", b"2"]
        waiting = door.make("ReceiveMessage", timeout_s=25)
        task = door.start(waiting, receiving("T", long_polling_timeout=m.Moment(20)))
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        await door.send(message("T", b"late", id="late"))
        (late,) = (await door.receive("T"))[1]
        assert (late.body, system_of(late).delivery_attempt) == (b"late", 1)
        assert len(door.broker.parts.pop.polls) == 0

    play(tmp_path, scenario)


def test_handles_are_renewed_change_and_die(tmp_path: Path) -> None:
    async def change(door: Door, message: m.WireMessage, seconds: int, code: int) -> str:
        given = entry(message)
        request = m.ChangeInvisibleDurationRequest(
            m.Resource(name="g"), message.topic, given.receipt_handle, m.Moment(seconds),
            given.message_id,
        )  # fmt: skip
        kind = m.ChangeInvisibleDurationResponse
        answer = await door.call("ChangeInvisibleDuration", request, kind)
        assert answer.status is not None and answer.status.code == code
        return answer.receipt_handle

    async def scenario(door: Door) -> None:
        door.topic("T")
        await door.send(message("T"))
        _, (first,) = await door.receive("T")
        await change(door, first, 43201, 40011)
        handle = await change(door, first, 30, 20000)
        assert len(handle.split(" ")) == 9
        old = entry(first).receipt_handle
        assert handle.split(" ")[8] == old.split(" ")[8], "its place in the log"
        system_of(first).receipt_handle = handle
        await change(door, first, 1, 20000)
        _, (again,) = await door.receive("T", long_polling_timeout=m.Moment(20))
        assert system_of(again).delivery_attempt == 2
        assert again.topic == m.Resource(name="T")
        assert await door.ack(again) == 20000
        await asyncio.sleep(30)
        assert await door.ack(again) == 40013, "expired"
        system_of(again).receipt_handle = "nonsense"
        assert await door.ack(again) == 40013
        far = SimClock().now_ms()
        system_of(again).receipt_handle = f"0 {far} 60000 0 0 broker-a 9 99 0"
        assert await door.ack(again) == 40013, "no such queue, for ever"

    play(tmp_path, scenario)


def test_what_a_push_consumer_holds_is_renewed_until_it_goes(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        door.topic("T")
        stream, _ = await door.telemetry(consumer("T", push=True))
        task = asyncio.ensure_future(door.service.run())
        await door.send(message("T"))
        _, (held,) = await door.receive("T", auto_renew=True, invisible_duration=None)
        for _ in range(9):
            await asyncio.sleep(30)
            await door.call(
                "Heartbeat", m.HeartbeatRequest(m.Resource(name="g"), 2), m.StatusResponse
            )
            assert (await door.receive("T"))[1] == [], "hidden by renewal"
        request = m.TerminationRequest(m.Resource(name="g"))
        await door.call("NotifyClientTermination", request, m.StatusResponse)
        _, (again,) = await door.receive("T", long_polling_timeout=m.Moment(20))
        assert again.body == held.body
        task.cancel()
        await stream.close()

    play(tmp_path, scenario)


def test_an_ack_with_the_first_handle_settles_a_renewed_message(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        door.topic("T")
        stream, _ = await door.telemetry(consumer("T", push=True))
        task = asyncio.ensure_future(door.service.run())
        await door.send(message("T"))
        _, (held,) = await door.receive("T", auto_renew=True, invisible_duration=None)
        await asyncio.sleep(100)
        assert await door.ack(held) == 20000
        await asyncio.sleep(300)
        assert (await door.receive("T"))[1] == []
        task.cancel()
        await stream.close()

    play(tmp_path, scenario)


def test_one_message_of_a_group_is_out_at_a_time(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        door.topic("F", "FIFO")
        door.group("g", consume_message_orderly=True)
        for number in range(3):
            answer = await door.send(
                message("F", b"%d" % number, id=str(number), message_group="order-1")
            )
            assert answer.entries[0].offset == number
        _, (first,) = await door.receive("F", batch_size=1, attempt_id="one")
        system = system_of(first)
        assert (first.body, system.queue_id, system.message_group) == (b"0", 3, "order-1")
        assert (system.message_type, first.user_properties) == (2, {})
        assert (await door.receive("F", batch_size=1, attempt_id="two"))[0] == 40401
        _, (same,) = await door.receive("F", batch_size=1, attempt_id="one")
        assert same.body == b"0", "the same attempt gets the same"
        assert await door.ack(same) == 20000
        _, (second,) = await door.receive("F", batch_size=1, attempt_id="three")
        assert second.body == b"1"

    play(tmp_path, scenario)


def test_dead_letters_by_call_and_after_too_many_attempts(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        door.topic("T")
        door.group("g", retry_max_times=1)
        await door.send(message("T", b"forwarded", id="A"))
        _, (got,) = await door.receive("T")
        given = entry(got)
        request = m.ForwardRequest(
            m.Resource(name="g"), got.topic, given.receipt_handle, given.message_id, 1, 16
        )
        name = "ForwardMessageToDeadLetterQueue"
        answer = await door.call(name, request, m.StatusResponse)
        assert answer.status == m.Status(20000, "0")
        request.receipt_handle = given.receipt_handle.rpartition(" ")[0]
        answer = await door.call(name, request, m.StatusResponse)
        assert answer.status is not None and answer.status.code == 40013
        _, (dead,) = await door.receive("%DLQ%g", "other")
        assert dead.body == b"forwarded"
        assert await door.ack(dead, "other") == 20000
        await door.send(message("T", b"fails", id="B"))
        attempts = []
        for _ in range(6):
            _, messages = await door.receive(
                "T", invisible_duration=m.Moment(10), long_polling_timeout=m.Moment(20)
            )
            attempts += [system_of(each).delivery_attempt for each in messages]
        assert attempts == [1, 2]
        _, (dead,) = await door.receive("%DLQ%g", "other")
        assert dead.body == b"fails"

    play(tmp_path, scenario)


def test_a_delayed_message_comes_late_and_can_be_recalled(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        door.topic("D", "DELAY")
        due = m.Moment.of_ms(SimClock().now_ms() + 10_000)
        await door.send(message("D", b"kept", id="A", message_type=3, delivery_timestamp=due))
        answer = await door.send(
            message("D", b"recalled", id="B", message_type=3, delivery_timestamp=due)
        )
        request = m.RecallMessageRequest(m.Resource(name="D"), answer.entries[0].recall_handle)
        recalled = await door.call("RecallMessage", request, m.RecallMessageResponse)
        assert recalled == m.RecallMessageResponse(m.Status(20000, "OK"), "B")
        began = now()
        _, (got,) = await door.receive("D", long_polling_timeout=m.Moment(20))
        assert 8.5 < now() - began < 12
        system = system_of(got)
        assert (got.body, system.message_type, system.delivery_timestamp) == (b"kept", 3, due)
        assert got.user_properties == {}
        assert (await door.receive("D", long_polling_timeout=m.Moment(20)))[1] == []
        request.recall_handle = "nonsense"
        recalled = await door.call("RecallMessage", request, m.RecallMessageResponse)
        assert recalled.status is not None and recalled.status.code == 50001

    play(tmp_path, scenario)


def test_transactions_end_by_the_place_in_their_id(tmp_path: Path) -> None:
    async def end(door: Door, transaction_id: str, resolution: int, source: int = 1) -> int:
        request = m.EndTransactionRequest(
            m.Resource(name="X"), "A", transaction_id, resolution, source
        )
        answer = await door.call("EndTransaction", request, m.StatusResponse)
        assert answer.status is not None
        return answer.status.code

    async def scenario(door: Door) -> None:
        door.topic("X", "TRANSACTION")
        ids = []
        for number in range(3):
            answer = await door.send(message("X", b"%d" % number, id=f"A{number}", message_type=4))
            ids.append(answer.entries[0].transaction_id)
        assert (await door.receive("X"))[0] == 40401
        assert await end(door, "", 1) == 40008
        assert await end(door, "A0", 1) == 50001, "no place in it"
        assert await end(door, ids[0], 1) == 20000
        assert await end(door, ids[0], 1) == 50001, "ended already"
        assert await end(door, ids[1], 2) == 20000
        _, (got,) = await door.receive("X")
        assert (got.body, got.user_properties) == (b"0", {})
        assert system_of(got).message_type == 4
        stream, _ = await door.telemetry(producer("X"))
        orphan = (await stream.hear()).recover_orphaned_transaction_command
        assert orphan is not None and orphan.message is not None
        assert (orphan.message.body, system_of(orphan.message).message_id) == (b"2", "A2")
        assert orphan.message.user_properties == {}
        assert await end(door, orphan.transaction_id, 1, source=2) == 20000
        _, (got,) = await door.receive("X")
        assert got.body == b"2"
        await stream.close()

    play(tmp_path, scenario, transactionTimeOut="2000", transactionCheckInterval="3000")


def test_bodies_are_handed_out_plain_however_they_came(tmp_path: Path) -> None:
    async def scenario(door: Door, client: RemotingClient) -> None:
        door.topic("T", queues=1)
        plain = b"plain " * 100
        await door.send(message("T", gzip.compress(plain), id="A", body_encoding=2))
        for kind in Compression:
            answer = await send(client, "T", compress(plain, kind), queue_id=0, sys_flag=kind.flags)
            assert answer.code == 0
        _, found = await door.receive("T")
        assert [each.body for each in found] == [plain] * 4
        assert {system_of(each).body_encoding for each in found} == {1}
        refused = await door.send(message("T", b"no gzip", body_encoding=2))
        assert refused.status is not None and refused.status.code == 40016

    play_with_client(tmp_path, scenario)


def test_an_administrator_asks_a_client_for_its_threads(tmp_path: Path) -> None:
    async def scenario(door: Door, client: RemotingClient) -> None:
        stream, _ = await door.telemetry(consumer("T", push=True))
        fields = {"consumerGroup": "g", "clientId": "c1", "jstackEnable": "true"}
        request = Command(RequestCode.GET_CONSUMER_RUNNING_INFO, fields=fields)
        asked = asyncio.ensure_future(client.call(ADDRESS, request, timeout_s=10))
        command = (await stream.hear()).print_thread_stack_trace_command
        assert isinstance(command, Nonce)
        stream.say(
            TelemetryCommand(
                status=m.Status(20000, "OK"),
                thread_stack_trace=ThreadStackTrace(command.nonce, "main: waits"),
            )
        )
        answer = await asked
        assert ConsumerRunningInfo.decode(answer.body).jstack == "main: waits"
        await stream.close()

    play_with_client(tmp_path, scenario)
