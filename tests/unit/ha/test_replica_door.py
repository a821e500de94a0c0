"""The HA port asks who is there: addresses, certificates, TLS between brokers of ours."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from contrailmq.broker.services.replica_door import ReplicaDoor, ReplicaNetwork
from contrailmq.clock import SystemClock
from contrailmq.ha.primary import AnyReplicas, Primary
from contrailmq.ha.replica import Replica
from contrailmq.ha.settings import HaSettings
from contrailmq.lifecycle import running
from contrailmq.net.network import AsyncioNetwork
from contrailmq.net.tls import ServerTls, client_context
from contrailmq.net.tls_settings import TlsSettings
from contrailmq.security.addresses import AddressPatterns
from contrailmq.store.settings import StoreSettings
from contrailmq.store.store import Store
from contrailmq.store.types import NewMessage
from contrailmq.testing.files import SimFiles
from testkit.authority import make_certificates

SETTINGS = HaSettings(frame_size=1000)
WAIT_S = 1.0


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("certs"))


def tls(certs: Path, mode: str = "enforcing", *, shows: str = "") -> TlsSettings:
    given: dict[str, Any] = {}
    if shows:
        given = {
            "client_cert": str(certs / f"{shows}.pem"), "client_key": str(certs / f"{shows}.key")
        }  # fmt: skip
    return TlsSettings(
        mode=mode,
        server_cert=str(certs / "server.pem"),
        server_key=str(certs / "server.key"),
        server_trust=str(certs / "ca.pem"),
        need_client_auth="optional",
        client_trust=str(certs / "ca.pem"),
        **given,
    )


def store(name: str) -> Store:
    settings = StoreSettings(
        root=name, segment_size=16384, queue_file_size=400, index_slots=50, index_entries=500,
        message_size_max=6000,
    )  # fmt: skip
    return Store(settings, files=SimFiles(), clock=SystemClock())


async def replicated(
    served: TlsSettings | None, client: TlsSettings | None, allowed: list[str] | None
) -> bool:
    """Whether a replica gets the log."""
    first, second, clock = store("first"), store("second"), SystemClock()
    await first.open()
    await second.open()
    primary = Primary(first, SETTINGS, quorum=AnyReplicas(1, behind_max=20_000))
    door = ReplicaDoor(None if allowed is None else AddressPatterns(allowed), clock=clock)
    refused: list[str] = []
    door.on_refusal = lambda peer, reason: refused.append(reason)
    primary.admits = lambda link: door.admits(link.peer, link.session)
    plain = AsyncioNetwork()
    context = None if served is None else ServerTls.of(served)
    network: Any = plain if context is None else ReplicaNetwork(plain, context, clock=clock)
    try:
        second.stand_by("a replica")
        port = await primary.listen(network, "127.0.0.1", 0)
        primary.serve()
        first.put(NewMessage("topic", 0, b"secret body"))
        own = AsyncioNetwork(client_tls=None if client is None else client_context(client))
        replica = Replica(second, SETTINGS, network=own, clock=clock)
        replica.follow(f"127.0.0.1:{port}")
        end = asyncio.get_running_loop().time() + WAIT_S
        async with running(replica.run(), name="replica"):
            while second.max_offset != first.max_offset:
                if asyncio.get_running_loop().time() > end or refused:
                    break
                await asyncio.sleep(0.005)
        assert second.max_offset in (0, first.max_offset)
        return second.max_offset == first.max_offset
    finally:
        await primary.aclose()
        await first.aclose()
        await second.aclose()


def test_tls_between_replicas(certs: Path) -> None:
    assert asyncio.run(replicated(tls(certs), tls(certs), None))


def test_plain_replicas_at_a_permissive_port(certs: Path) -> None:
    assert asyncio.run(replicated(tls(certs, "permissive"), None, None))


def test_plain_replicas_at_an_enforcing_port_get_nothing(certs: Path) -> None:
    assert not asyncio.run(replicated(tls(certs), None, None))


def test_strangers_get_nothing(certs: Path) -> None:
    assert not asyncio.run(replicated(None, None, ["10.0.0.1"]))
    assert not asyncio.run(replicated(tls(certs), tls(certs), ["10.0.0.1"]))


def test_a_checked_certificate_may_come_from_anywhere(certs: Path) -> None:
    assert asyncio.run(replicated(tls(certs), tls(certs, shows="client"), ["10.0.0.1"]))


def test_replicas_that_name_servers_know() -> None:
    async def main() -> None:
        asked: list[int] = []

        async def members() -> set[str]:
            asked.append(1)
            return {"10.0.0.2"}

        door = ReplicaDoor(None, clock=SystemClock(), members=members)
        async with running(door.run(), name="door"):
            assert not door.admits("10.0.0.2:5000", None)  # not known yet: they are asked
            while not asked:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            await asyncio.sleep(0)
            assert door.admits("10.0.0.2:5001", None)
            assert not door.admits("127.0.0.1:5000", None)
            assert len(asked) == 1

    asyncio.run(main())
