"""Any bytes on a name server's port: an answer, a wait for more, or that connection's end."""

from __future__ import annotations

import asyncio
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from contrailmq.namesrv.app import NameServer
from contrailmq.namesrv.settings import NameServerSettings
from contrailmq.net.client import RemotingClient
from contrailmq.protocol.command import Command, Serialization
from contrailmq.testing.network import SimNetwork
from contrailmq.testing.sim import SimClock, simulate

CODES = (100, 101, 102, 103, 104, 105, 106, 205, 206, 216, 217, 219, 224, 304, 311, 318, 319, 322)
FIELDS = ("topic", "brokerName", "brokerAddr", "clusterName", "brokerId", "namespace", "key",
          "value", "cluster", "compressed", "bodyCrc32", "heartbeatTimeoutMillis")  # fmt: skip

commands = st.builds(
    lambda code, fields, body, kind: Command(
        code, fields=fields, body=body, serialization=kind
    ).encode(),
    st.sampled_from(CODES),
    st.dictionaries(
        st.sampled_from(FIELDS), st.text(max_size=8) | st.sampled_from(("0", "true", "-1", "x"))
    ),
    st.binary(max_size=40) | st.sampled_from((b"{}", b'{"table":1}', b"a=b", b"[]", b"null")),
    st.sampled_from(list(Serialization)),
)


@settings(max_examples=150, deadline=None)
@given(pieces=st.lists(st.binary(max_size=60) | commands, max_size=6))
def test_any_bytes_harm_only_their_own_connection(pieces: list[bytes]) -> None:
    async def scenario(rng: random.Random) -> None:
        network = SimNetwork(rng)
        server = NameServer(
            NameServerSettings(listen_port=9876),
            clock=SimClock(),
            network=network.host("10.0.0.1"),
            rng=rng,
        )
        errors: list[str] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda loop, context: errors.append(str(context))
        )
        async with server:
            evil = _Evil()
            await network.host("10.6.6.6").connect(lambda: evil, "10.0.0.1", 9876)
            for piece in pieces:
                evil.transport.write(piece)
                await asyncio.sleep(0.01)
            client = RemotingClient(clock=SimClock(), network=network.host("10.0.0.2"), rng=rng)
            answer = await client.call(
                "10.0.0.1:9876", Command(105, fields={"topic": "T"}), timeout_s=5
            )
            assert answer.code in (0, 17)
            await client.aclose()
        assert errors == []

    simulate(1, scenario)


class _Evil(asyncio.BufferedProtocol):
    """Writes and never looks at what comes back."""

    def __init__(self) -> None:
        self._buffer = bytearray(4096)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Nothing."""
