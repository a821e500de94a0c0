"""Host names where an address is given: kept for clients, a number only in records."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from contrailmq import Message, Producer, PushConsumer
from contrailmq.broker.config.settings import BrokerSettings, completed
from contrailmq.broker.identifying import identify
from contrailmq.broker.services import access
from contrailmq.errors import ConfigError
from contrailmq.net.network import AsyncioNetwork
from contrailmq.net.resolving import may_be_name
from contrailmq.protocol.bodies.route import BrokerData, ClusterInfo
from contrailmq.protocol.hosts import host_text
from contrailmq.testing.cluster import LocalCluster

BROKER = "broker-a.mq.svc.cluster.local"


async def _known(host: str) -> list[str]:
    if host != BROKER:
        raise OSError(f"{host} is unknown")
    return ["10.1.2.3", "fd00::5"]


def _settings(**given: Any) -> BrokerSettings:
    return completed(BrokerSettings(broker_name="a", listen_port=10911, **given))


def test_a_name_is_advertised_and_records_have_its_number() -> None:
    settings = _settings(advertised_ip=BROKER)
    assert settings.bind_address == "0.0.0.0"
    identity = asyncio.run(identify(settings, AsyncioNetwork(), resolve=_known))
    assert identity.address == f"{BROKER}:10911"
    assert identity.ha_address == f"{BROKER}:10912"
    assert host_text(identity.store_host) == "10.1.2.3:10911"


def test_replicas_may_be_told_another_name() -> None:
    settings = _settings(advertised_ip="10.0.0.7", ha_ip="inner.example.org")
    identity = asyncio.run(identify(settings, AsyncioNetwork(), resolve=_known))
    assert (identity.address, identity.ha_address) == ("10.0.0.7:10911", "inner.example.org:10912")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"advertised_ip": "nowhere.invalid"}, r"brokerIP1 = 'nowhere\.invalid'.*resolve"),
        ({"advertised_ip": "10.0.0"}, "brokerIP1 = '10.0.0': expected an IP address or a host"),
        ({"advertised_ip": "a b"}, "expected an IP address or a host name"),
        ({"advertised_ip": "10.0.0.1", "ha_ip": "a:1"}, "brokerIP2 = 'a:1': expected"),
    ],
)
def test_what_is_neither_is_refused(given: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        asyncio.run(identify(_settings(**given), AsyncioNetwork(), resolve=_known))


def test_which_texts_are_names() -> None:
    for name in ("localhost", "broker_a", "a.example.org.", "x" * 63):
        assert may_be_name(name), name
    for text in ("", "-a", "10.0.0", "300.1.1.1", "a..b", "x" * 64, "a/b", "ä.de", ".a" * 130):
        assert not may_be_name(text), text


def test_localhost_is_near() -> None:
    assert _settings(advertised_ip="localhost").bind_address == "127.0.0.1"


def test_clients_find_a_broker_by_name() -> None:
    async def run() -> tuple[str, str, bytes]:
        async with LocalCluster(properties={"brokerIP1": "localhost"}) as cluster:
            await cluster.create_topic("orders")
            names = cluster.name_servers
            async with Producer("shop", name_servers=names) as producer:
                receipt = await producer.send(Message("orders", b"by name"))
            broker = cluster.brokers[0].broker
            await broker.self_check.run()
            assert broker.self_check.fault is None
            async with PushConsumer(
                "billing", topics="orders", name_servers=names, start_from="first"
            ) as consumer:
                message = await anext(aiter(consumer))
            return broker.identity.address, receipt.offset_message_id, message.body

    address, message_id, body = asyncio.run(asyncio.wait_for(run(), 10))
    assert address.startswith("localhost:")
    assert message_id.startswith("7F000001")
    assert body == b"by name"


def test_a_replica_known_by_name_may_connect_from_its_address() -> None:
    members = {0: "10.0.0.1:10911", 1: "localhost:10911", 2: "nowhere.invalid:10911"}
    data = BrokerData(broker_addrs=members, broker_name="a", cluster="c")
    body = ClusterInfo(broker_addr_table={"a": data}, cluster_addr_table={"c": ["a"]}).encode()

    async def call(*_: object, **__: object) -> object:
        return SimpleNamespace(body=body)

    parts = SimpleNamespace(
        registration=SimpleNamespace(addresses=["n:9876"]),
        client=SimpleNamespace(call=call),
        identity=SimpleNamespace(broker_name="a", address="10.0.0.1:10911"),
    )
    hosts = asyncio.run(access.replica_hosts(cast(Any, parts)))
    assert "127.0.0.1" in hosts
    assert "10.0.0.1" not in hosts
