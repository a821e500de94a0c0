"""The parts of the client that need no network: budgets, offsets, routes, names, messages."""

from __future__ import annotations

import asyncio
import base64
import datetime
import json
import pathlib
from collections import deque
from collections.abc import Callable

import pytest

from contrailmq.client import names
from contrailmq.client.access import Credentials, name_server_list
from contrailmq.client.acl import sign
from contrailmq.client.consumer.mismatch import compare
from contrailmq.client.consumer.subscription import Sql, start_position, subscriptions
from contrailmq.client.message import Message, Receipt, delay_level
from contrailmq.client.name_servers import NameServers, discover
from contrailmq.client.offset_store import LocalOffsets, decode_offsets, encode_offsets
from contrailmq.client.producer.batching import split_receipt
from contrailmq.client.producer.budget import Budget
from contrailmq.client.producer.outgoing import Packer
from contrailmq.client.routes import (
    inherited,
    publish_route,
    reading_address,
    subscribe_queues,
    vip,
)
from contrailmq.client.settings import ProducerSettings
from contrailmq.client.trace import Published, TraceRecord, take_batch
from contrailmq.errors import ClientError, LocalProtocolError, NetworkError
from contrailmq.protocol.batch import decode_batch
from contrailmq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from contrailmq.protocol.command import Command
from contrailmq.protocol.ids import UniqueIds
from contrailmq.protocol.properties import decode_properties_text, encode_properties
from contrailmq.protocol.queue import MessageQueue
from contrailmq.protocol.sysflag import COMPRESSED
from contrailmq.testing.sim import EPOCH_MS

VECTORS = pathlib.Path(__file__).parents[2] / "golden" / "data" / "vectors"
ROUTE = TopicRouteData(
    broker_datas=[
        BrokerData(broker_name="b", cluster="c", broker_addrs={0: "h:1", 1: "h:2"}),
        BrokerData(broker_name="a", cluster="c", broker_addrs={0: "h:3"}),
        BrokerData(broker_name="orphan", cluster="c", broker_addrs={1: "h:4"}),
    ],
    queue_datas=[
        QueueData(broker_name="b", perm=6, read_queue_nums=3, write_queue_nums=2),
        QueueData(broker_name="a", perm=4, read_queue_nums=1, write_queue_nums=1),
        QueueData(broker_name="orphan", perm=6, read_queue_nums=1, write_queue_nums=1),
    ],
)


class _Clock:
    def now_ms(self) -> int:
        return EPOCH_MS

    def monotonic_ms(self) -> int:
        return 0


def packer(**options: object) -> Packer:
    """A packer with ids that can be told in advance."""
    import random

    ids = UniqueIds(bytes([127, 0, 0, 1]), clock=_Clock(), pid=1, rng=random.Random(1))
    namespace = str(options.pop("namespace", ""))
    settings = ProducerSettings(**options)  # type: ignore[arg-type]
    return Packer(settings, ids=ids, clock=_Clock(), namespace=namespace)


@pytest.mark.parametrize("version", ["4.9.7", "5.2.0"])
def test_signatures_equal_java(version: str) -> None:
    for line in (VECTORS / version / "acl-signature.jsonl").read_text().splitlines():
        row = json.loads(line)
        if "ext" not in row or "signedExt" not in row:
            continue
        body = base64.b64decode(row["body"]) if row["body"] else b""
        command = Command(10, fields=dict(row["ext"]), body=body)
        account = Credentials(
            access_key=row["accessKey"],
            secret_key=row["secretKey"],
            security_token=row["securityToken"],
        )
        sign(command, account)
        assert command.fields == row["signedExt"], row


def test_secrets_are_not_shown() -> None:
    assert "hidden" not in repr(Credentials(access_key="a", secret_key="hidden"))


def test_queues_to_send_to_have_a_writable_master() -> None:
    route = publish_route("T", ROUTE)
    assert route.queues == (MessageQueue("T", "b", 0), MessageQueue("T", "b", 1))
    ordered = TopicRouteData(
        broker_datas=ROUTE.broker_datas, queue_datas=ROUTE.queue_datas, order_topic_conf="b:1;a:2"
    )
    assert publish_route("T", ordered).ordered
    assert [q.broker_name for q in publish_route("T", ordered).queues] == ["b", "a", "a"]


def test_queues_to_read_are_sorted_and_readable() -> None:
    assert [(q.broker_name, q.queue_id) for q in subscribe_queues("T", ROUTE)] == [
        ("a", 0), ("b", 0), ("b", 1), ("b", 2), ("orphan", 0),
    ]  # fmt: skip


def test_a_new_topic_inherits_at_most_the_wanted_queues() -> None:
    found = inherited(ROUTE, 2)
    assert [data.write_queue_nums for data in found.queue_datas] == [2, 1, 1]
    assert [data.read_queue_nums for data in ROUTE.queue_datas] == [3, 1, 1]


def test_which_member_of_a_broker_is_read() -> None:
    assert reading_address({0: "m", 1: "r"}, 1) == (1, "r")
    assert reading_address({0: "m"}, 1) == (0, "m")
    assert reading_address({1: "r"}, 0) == (1, "r")
    assert reading_address({1: "r"}, 0, only_this=True) is None
    assert reading_address({}, 0) is None
    assert vip("10.0.0.1:10911") == "10.0.0.1:10909"


def test_namespaces() -> None:
    assert names.wrap("ns", "T") == "ns%T"
    assert names.wrap("ns", "ns%T") == "ns%T"
    assert names.wrap("ns", "%RETRY%g") == "%RETRY%ns%g"
    assert names.unwrap("ns", "%RETRY%ns%g") == "%RETRY%g"
    assert names.wrap("", "T") == "T"
    assert names.wrap("ns", "TBW102") == "TBW102"


def test_name_servers_are_read_from_all_their_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    assert name_server_list("a:1;b:2") == ["a:1", "b:2"]
    assert name_server_list(["a:1", "b:2,a:1"]) == ["a:1", "b:2"]
    monkeypatch.setenv("NAMESRV_ADDR", "env:9876")
    assert name_server_list(None) == ["env:9876"]
    with pytest.raises(ClientError, match="expected host:port"):
        name_server_list("nowhere")


def test_a_message_is_packed_as_java_packs_it() -> None:
    message = Message("T", b"x", tags="t", keys=["a", "b"], properties={"p": "1"}, delay_level=3)
    outgoing = packer(namespace="ns").pack(message)
    found = decode_properties_text(outgoing.properties)
    assert found.pop("UNIQ_KEY") == outgoing.message_id
    assert found == {
        "p": "1", "KEYS": "a b", "TAGS": "t", "WAIT": "true", "DELAY": "3", "INSTANCE_ID": "ns",
    }  # fmt: skip
    assert outgoing.topic == "ns%T"
    assert outgoing.sys_flag == 0
    large = packer().pack(Message("T", b"x" * 5000))
    assert large.sys_flag & COMPRESSED
    assert len(large.body) < 5000


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Message("T", b""), "at least 1"),
        (lambda: Message("T", "text"), "encode text"),  # type: ignore[arg-type]
        (lambda: Message("", b"x"), "cannot be used"),
        (lambda: Message("SCHEDULE_TOPIC_XXXX", b"x"), "belongs to the broker"),
        (lambda: Message("T", b"x", properties={"TAGS": "x"}), "RocketMQ's own"),
        (lambda: Message("T", b"x", properties={"a": "\x01"}), "separators"),
        (lambda: Message("T", b"x", delay_level=19), "0 to 18"),
        (lambda: Message("T", b"x" * 5_000_000), "at most 4194304"),
    ],
)
def test_what_cannot_be_sent_says_why(make: Callable[[], Message], text: str) -> None:
    with pytest.raises(ClientError, match=text):
        packer().pack(make())


def test_a_batch_has_one_topic_and_no_delays() -> None:
    with pytest.raises(ClientError, match="one topic"):
        packer().pack_batch([Message("T", b"x"), Message("U", b"x")])
    with pytest.raises(ClientError, match="delayed"):
        packer().pack_batch([Message("T", b"x", delay_level=1)])
    with pytest.raises(ClientError, match="at least one"):
        packer().pack_batch([])


def test_all_messages_of_a_batch_carry_their_properties() -> None:
    for namespace in ("", "ns"):
        messages = [
            Message("T", b"plain"),
            Message("T", bytearray(b"body"), flag=-7),
            Message("T", b"x", tags="\u00e4", keys=["k1", "k2"], flag=5),
            Message("T", b"x", properties={"mine": "half \ud800"}, tags="t"),
        ]
        packing = packer(namespace=namespace)
        outgoing = packing.pack_batch(messages)
        for some in (messages[:1], messages[::2]):  # known topic, plain messages: the short way
            short, long = packing.pack_batch(some), packer(namespace=namespace).pack_batch(some)
            assert len(short.body) == len(long.body) and len(
                set(short.message_id.split(","))
            ) == len(some)
        ids = outgoing.message_id.split(",")
        assert len(set(ids)) == len(messages)
        inner = decode_batch(outgoing.body)
        assert [(part.body, part.flag) for part in inner] == [
            (bytes(message.body), message.flag) for message in messages
        ]
        for message, part, message_id in zip(messages, inner, ids, strict=True):
            wanted = message.wire_properties()
            if namespace:
                wanted["INSTANCE_ID"] = namespace
            assert part.properties == encode_properties({**wanted, "UNIQ_KEY": message_id})


def test_a_batch_refuses_what_a_record_cannot_hold() -> None:
    with pytest.raises(ClientError, match="flag is"):
        packer().pack_batch([Message("T", b"x", flag=1 << 31)])
    with pytest.raises(ClientError, match="at least 1"):
        packer().pack_batch([Message("T", b"x"), Message("T", b"")])
    with pytest.raises(LocalProtocolError, match="properties of"):
        packer().pack_batch([Message("T", b"x", tags="t" * 40_000)])


def test_a_batch_receipt_is_divided() -> None:
    queue = MessageQueue("T", "b", 1)
    parts = split_receipt(Receipt("a,b,c", "1,2,3", queue, 10))
    assert [(r.message_id, r.offset_message_id, r.offset) for r in parts] == [
        ("a", "1", 10), ("b", "2", 11), ("c", "3", 12),
    ]  # fmt: skip


def test_delay_levels_are_the_next_longer_ones() -> None:
    assert [delay_level(s) for s in (None, 0.5, 1, 2, 10, 11, 7200, 99999)] == [
        0, 1, 1, 2, 3, 4, 18, 18,
    ]  # fmt: skip


def test_a_budget_lets_in_what_fits_and_the_rest_in_order() -> None:
    async def run() -> None:
        budget = Budget(size_max=10, count_max=3)
        await budget.take(100)  # larger than all of it, and alone
        order: list[int] = []

        async def take(number: int, size: int) -> None:
            await budget.take(size)
            order.append(number)

        async with asyncio.TaskGroup() as group:
            for number, size in enumerate((6, 6, 1)):
                group.create_task(take(number, size))
            await asyncio.sleep(0)
            cancelled = group.create_task(take(9, 1))
            await asyncio.sleep(0)
            cancelled.cancel()
            budget.give(100)
            await asyncio.sleep(0)
            assert order == [0]  # the second does not fit, and the third does not pass it
            budget.give(6)
            await asyncio.sleep(0)
            assert order == [0, 1, 2]
        budget.give(6)
        budget.give(1)
        assert (budget.size, budget.count) == (0, 0)
        await budget.wait_idle()

    asyncio.run(run())


def test_local_offsets_survive_and_fall_back(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        queue = MessageQueue("T", "b", 0)
        store = LocalOffsets(tmp_path, client_id="1.2.3.4@DEFAULT", group="g")
        assert await store.read(queue) == -1
        store.update(queue, 5)
        store.update(queue, 3)  # only forward
        await store.persist([queue])
        store.update(queue, 7)
        await store.persist([queue])
        assert store.path == tmp_path / "1.2.3.4@DEFAULT" / "g" / "offsets.json"
        again = LocalOffsets(tmp_path, client_id="1.2.3.4@DEFAULT", group="g")
        assert await again.read(queue) == 7
        store.path.write_bytes(b"{ damaged")
        older = LocalOffsets(tmp_path, client_id="1.2.3.4@DEFAULT", group="g")
        assert await older.read(queue) == 5

    asyncio.run(run())


def test_an_offset_file_has_queues_as_keys() -> None:
    table = {MessageQueue("T", "b", 0): 12}
    data = encode_offsets(table)
    assert b'{"brokerName":"b","queueId":0,"topic":"T"}:12' in data.replace(b" ", b"").replace(
        b"\n", b""
    ).replace(b"\t", b"")
    assert decode_offsets(data) == table


def test_subscriptions_are_refused_early() -> None:
    assert subscriptions("T", namespace="", version_ms=1)["T"].sub_string == "*"
    found = subscriptions({"T": "a || b"}, namespace="ns", version_ms=1)["ns%T"]
    assert (found.tags_set, found.sub_version) == (["a", "b"], 1)
    with pytest.raises(ClientError, match="at least one topic"):
        subscriptions({}, namespace="", version_ms=1)
    with pytest.raises(ClientError, match="subscription '\\|\\|'"):
        subscriptions({"T": "||"}, namespace="", version_ms=1)
    with pytest.raises(ClientError, match="a = "):
        subscriptions({"T": Sql("a = ")}, namespace="", version_ms=1)


def test_start_positions() -> None:
    moment = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    assert start_position(moment).timestamp_ms == 1704067200000
    assert start_position("first").wire_name == "CONSUME_FROM_FIRST_OFFSET"
    with pytest.raises(ClientError, match="no time zone"):
        start_position(datetime.datetime(2024, 1, 1))  # noqa: DTZ001
    with pytest.raises(ClientError, match="'first', 'last'"):
        start_position("middle")


def test_different_subscriptions_of_one_group_are_named() -> None:
    ours = subscriptions({"T": "a || b", "U": "*"}, namespace="", version_ms=1)
    same = subscriptions({"T": "b||a", "U": "*"}, namespace="", version_ms=2)
    other = subscriptions({"T": "a"}, namespace="", version_ms=2)
    assert compare(ours, same) == []
    assert compare(ours, other) == [("T", "a || b", "a"), ("U", "*", "no subscription")]


def test_trace_records_are_joined_within_bounds() -> None:
    record = Published(
        timestamp_ms=1, region="r", group="g", topic="T", message_id="id", tags="", keys="k1 k2",
        store_host="h:1", body_size=3, cost_ms=2, kind=0, offset_message_id="o", success=True,
    ).encode()  # fmt: skip
    assert record.text == (
        "Pub\x011\x01r\x01g\x01T\x01id\x01\x01k1 k2\x01h:1\x013\x012\x010\x01o\x01true\x02"
    )
    assert record.keys == ("id", "k1", "k2")
    waiting = deque([TraceRecord("x" * 50_000, ()) for _ in range(5)])
    assert [len(take_batch(waiting)) for _ in range(3)] == [2, 2, 1]


def test_name_servers_are_discovered_over_http() -> None:
    async def run() -> None:
        asked: list[bytes] = []

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.append(await reader.readline())
            writer.write(b"HTTP/1.0 200 OK\r\n\r\nns1:9876;ns2:9876\n")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server:
            found = await discover(f"http://127.0.0.1:{port}/nsaddr", unit_name="eu")
        assert found == ["ns1:9876", "ns2:9876"]
        assert asked[0].startswith(b"GET /nsaddr-eu")
        with pytest.raises(NetworkError, match="could not be fetched"):
            await discover(f"http://127.0.0.1:{port}/nsaddr")
        with pytest.raises(NetworkError, match="http or https"):
            await discover("file:///etc/hosts")

    asyncio.run(run())


def test_a_name_server_that_fails_is_left_for_the_next() -> None:
    class Caller:
        def __init__(self) -> None:
            self.asked: list[str] = []
            self.down: set[str] = set()

        async def call(self, address: str, command: Command, *, timeout_s: float) -> Command:
            self.asked.append(address)
            if address in self.down:
                raise NetworkError(f"{address} is down")
            return Command(0)

    async def run() -> None:
        import random

        caller = Caller()
        servers = NameServers(["a:1", "b:2"], caller=caller, rng=random.Random(1))
        await servers.ask(Command(105), timeout_s=1)
        first = caller.asked[-1]
        await servers.ask(Command(105), timeout_s=1)
        assert caller.asked == [first, first]
        caller.down.add(first)
        await servers.ask(Command(105), timeout_s=1)
        second = caller.asked[-1]
        assert second != first
        caller.down.add(second)
        with pytest.raises(NetworkError, match="no name server answers"):
            await servers.ask(Command(105), timeout_s=1)
        assert servers.replace(["c:3"])
        await servers.ask(Command(105), timeout_s=1)
        assert caller.asked[-1] == "c:3"

    asyncio.run(run())
