"""With access control a stranger at the HA port of a broker gets nothing of the log."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from testkit.broker_world import BROKER_IP, World, run, send


class Stranger(asyncio.Protocol):
    """Says where its log ends, as a replica does."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.is_lost = False

    def connection_made(self, transport: Any) -> None:
        transport.write(bytes(8))

    def get_buffer(self, sizehint: int) -> memoryview:
        self._buffer = bytearray(65536)
        return memoryview(self._buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self._buffer[:nbytes]

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True


@pytest.mark.parametrize("is_checked", [True, False])
def test_a_stranger_at_the_ha_port(is_checked: bool, tmp_path: Path) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_text("globalWhiteRemoteAddresses: [10.0.2.*]\naccounts: []\n")
    path.chmod(0o600)

    async def scenario(world: World) -> None:
        async with world.name_server(), world.broker() as broker, world.client() as client:
            await send(client, "T", b"the log")
            port = int(broker.parts.identity.ha_address.rpartition(":")[2])
            for _ in range(2):  # it may come again: it is not known then either
                stranger = Stranger()
                await world.network.host("10.0.2.9").connect(lambda s=stranger: s, BROKER_IP, port)
                await asyncio.sleep(3)
                assert (b"the log" in stranger.received) == (not is_checked)
                assert stranger.is_lost == is_checked

    run(1, tmp_path, scenario, aclEnable=str(is_checked).lower(), aclFile=str(path))
