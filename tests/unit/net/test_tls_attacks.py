"""Peers that mean harm at a TLS port: half a handshake, a replay, renegotiation, a crowd."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from contrailmq.client.access import Tls
from contrailmq.clock import SystemClock
from contrailmq.net import front
from contrailmq.net.client import RemotingClient
from contrailmq.net.connection import Connection
from contrailmq.net.dispatch import Dispatcher
from contrailmq.net.network import AsyncioNetwork
from contrailmq.net.server import Server
from contrailmq.net.settings import ServerSettings
from contrailmq.net.tls import ServerTls
from contrailmq.net.tls_settings import TlsSettings
from contrailmq.protocol.command import Command
from testkit.authority import make_certificates

CODE = 777


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("certs"))


class Counting:
    """A handler that counts what reaches it."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, request: Command, connection: Connection) -> Command:
        self.count += 1
        return request.reply(body=bytes(request.body))


@asynccontextmanager
async def serving(certs: Path, handler: Any, mode: str = "enforcing") -> AsyncIterator[Server]:
    tls = TlsSettings(
        mode=mode,
        server_cert=str(certs / "server.pem"),
        server_key=str(certs / "server.key"),
    )
    server = Server(
        Dispatcher({CODE: handler}),
        ServerSettings(drain_ms=50),
        clock=SystemClock(),
        tls=ServerTls.of(tls),
    )
    await server.start("127.0.0.1", 0)
    try:
        yield server
    finally:
        await server.aclose()


async def call(server: Server, context: ssl.SSLContext | None, count: int = 1) -> None:
    client = RemotingClient(clock=SystemClock(), network=AsyncioNetwork(client_tls=context))
    try:
        for _ in range(count):
            answer = await client.call(
                f"127.0.0.1:{server.port}", Command(CODE, body=b"x"), timeout_s=5
            )
            assert bytes(answer.body) == b"x"
    finally:
        await client.aclose()


class Wire:
    """A TLS client whose bytes are kept."""

    def __init__(self, certs: Path) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = Tls(ca=str(certs / "ca.pem")).context()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="127.0.0.1")
        self.sent: list[bytes] = []

    def flush(self, writer: asyncio.StreamWriter) -> None:
        self.sent.append(self.outgoing.read())
        writer.write(self.sent[-1])

    async def step(self, call: Any, reader: Any, writer: Any) -> Any:
        while True:
            try:
                return call()
            except ssl.SSLWantReadError:
                self.flush(writer)
                self.incoming.write(await asyncio.wait_for(reader.read(65536), 5))


def test_bytes_of_one_connection_are_worth_nothing_on_another(certs: Path) -> None:
    async def main() -> None:
        handler = Counting()
        async with serving(certs, handler) as server:
            wire = Wire(certs)
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            await wire.step(wire.tls.do_handshake, reader, writer)
            wire.tls.write(Command(CODE, body=b"pay me").encode())
            wire.flush(writer)
            assert b"pay me" in await wire.step(lambda: wire.tls.read(65536), reader, writer)
            writer.close()
            assert handler.count == 1
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"".join(wire.sent))
            got = b""
            while data := await asyncio.wait_for(reader.read(65536), 5):
                got += data
            assert b"pay me" not in got
            assert handler.count == 1
            writer.close()

    asyncio.run(main())


def test_half_a_handshake_ends(certs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "HANDSHAKE_S", 0.1)

    async def main() -> None:
        async with serving(certs, Counting()) as server:
            wire = Wire(certs)
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            with pytest.raises(ssl.SSLWantReadError):
                wire.tls.do_handshake()
            wire.flush(writer)  # the hello, and nothing more
            while await asyncio.wait_for(reader.read(65536), 5):
                pass
            writer.close()
            assert server.front is not None
            assert server.front.shaking == 0
            assert not server.front.porters
            await call(server, Tls(ca=str(certs / "ca.pem")).context())

    asyncio.run(main())


def test_a_crowd_of_handshakes_lets_others_work(certs: Path) -> None:
    """One step of one handshake per turn: whoever is connected is served in between."""

    async def main() -> None:
        handler = Counting()
        async with serving(certs, handler, "permissive") as server:
            context = Tls(ca=str(certs / "ca.pem")).context()
            crowd = [asyncio.ensure_future(call(server, context)) for _ in range(30)]
            await call(server, None, count=20)
            waiting = sum(not one.done() for one in crowd)
            await asyncio.gather(*crowd)
            assert waiting > 0  # the plain ones did not wait for all of them
            assert handler.count == 50

    asyncio.run(main())


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")
def test_nothing_is_renegotiated(certs: Path) -> None:
    async def main() -> None:
        handler = Counting()
        async with serving(certs, handler) as server:
            process = await asyncio.create_subprocess_exec(
                "openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-tls1_2",
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )  # fmt: skip
            assert process.stdin is not None
            assert process.stdout is not None
            said = b""
            while b"Verify return code" not in said:
                said += await asyncio.wait_for(process.stdout.read(4096), 10)
            process.stdin.write(b"R\n")  # its command to renegotiate
            rest, _ = await asyncio.wait_for(process.communicate(), 10)
            assert b"RENEGOTIATING" in rest
            assert b"no renegotiation" in rest.lower() or b"error" in rest.lower()
            await call(server, Tls(ca=str(certs / "ca.pem")).context())

    asyncio.run(main())
