"""TLS at a server's port: modes, certificates, broken peers, PROXY lines."""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from contrailmq.client.access import Tls
from contrailmq.clock import SystemClock
from contrailmq.errors import ClientError, ConfigError, NetworkError
from contrailmq.net.client import RemotingClient
from contrailmq.net.connection import Connection
from contrailmq.net.dispatch import Dispatcher
from contrailmq.net.network import AsyncioNetwork
from contrailmq.net.proxy_line import parse_proxy_line
from contrailmq.net.server import Server
from contrailmq.net.settings import ServerSettings
from contrailmq.net.tls import ServerTls, client_context
from contrailmq.net.tls_settings import TlsSettings, own_calls, read_tls
from contrailmq.protocol.command import Command
from contrailmq.security.addresses import AddressPatterns
from testkit.authority import make_certificates

CODE = 777


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("certs"))


def settings(certs: Path, mode: str = "enforcing", auth: str = "none", **more: Any) -> TlsSettings:
    given: dict[str, Any] = {
        "mode": mode,
        "server_cert": str(certs / "server.pem"),
        "server_key": str(certs / "server.key"),
        "server_trust": str(certs / "ca.pem"),
        "need_client_auth": auth,
        **more,
    }
    return TlsSettings(**given)


def echo(request: Command, connection: Connection) -> Command:
    names = ",".join(connection.principals)
    return request.reply(body=bytes(request.body), remark=f"{connection.peer} {names}")


@asynccontextmanager
async def serving(tls: ServerTls | None, proxies: Any = None) -> AsyncIterator[Server]:
    server = Server(
        Dispatcher({CODE: echo}),
        ServerSettings(drain_ms=50),
        clock=SystemClock(),
        tls=tls,
        proxies=proxies,
    )
    await server.start("127.0.0.1", 0)
    try:
        yield server
    finally:
        await server.aclose()


@asynccontextmanager
async def connected(context: ssl.SSLContext | None) -> AsyncIterator[RemotingClient]:
    network = AsyncioNetwork(client_tls=context)
    client = RemotingClient(clock=SystemClock(), network=network)
    try:
        yield client
    finally:
        await client.aclose()


async def call(server: Server, context: ssl.SSLContext | None, body: bytes = b"x") -> Command:
    async with connected(context) as client:
        request = Command(CODE, body=body)
        return await client.call(f"127.0.0.1:{server.port}", request, timeout_s=5)


def run(coroutine: Any) -> Any:
    return asyncio.run(coroutine)


@pytest.mark.parametrize("size", [0, 1, 16 * 1024, 3_000_000])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_frames_of_every_size(certs: Path, size: int, version: ssl.TLSVersion) -> None:
    async def main() -> None:
        async with serving(ServerTls.of(settings(certs))) as server:
            context = Tls(ca=str(certs / "ca.pem")).context()
            context.maximum_version = context.minimum_version = version
            answer = await call(server, context, b"z" * size)
            assert bytes(answer.body) == b"z" * size

    run(main())


def test_many_requests_at_once(certs: Path) -> None:
    async def main() -> None:
        async with (
            serving(ServerTls.of(settings(certs))) as server,
            connected(Tls(ca=str(certs / "ca.pem")).context()) as client,
        ):
            address = f"127.0.0.1:{server.port}"
            answers = await asyncio.gather(
                *(
                    client.call(address, Command(CODE, body=b"%d" % n * 500), timeout_s=20)
                    for n in range(500)
                )
            )
            assert [bytes(a.body) for a in answers] == [b"%d" % n * 500 for n in range(500)]

    run(main())


@pytest.mark.parametrize("mode", ["permissive", "enforcing", "disabled"])
def test_modes(certs: Path, mode: str) -> None:
    async def main() -> None:
        tls = ServerTls.of(settings(certs, mode))
        async with serving(tls) as server:
            speaks = Tls(ca=str(certs / "ca.pem")).context()
            for context, works in ((speaks, mode != "disabled"), (None, mode != "enforcing")):
                if works:
                    assert (await call(server, context)).code == 0
                else:
                    with pytest.raises(NetworkError):
                        await call(server, context)

    run(main())


def test_certificates_of_clients(certs: Path) -> None:
    async def main() -> None:
        ca = str(certs / "ca.pem")

        def shown(name: str) -> ssl.SSLContext:
            pair = {"cert": str(certs / f"{name}.pem"), "key": str(certs / f"{name}.key")}
            return Tls(ca=ca, **pair).context()

        async with serving(ServerTls.of(settings(certs, auth="require"))) as server:
            answer = await call(server, shown("client"))
            assert answer.remark is not None
            assert answer.remark.split()[1] == "appAccount,localhost"
            for context in (shown("stranger"), shown("expired"), Tls(ca=ca).context()):
                with pytest.raises(NetworkError):
                    await call(server, context)
        async with serving(ServerTls.of(settings(certs, auth="optional"))) as server:
            assert (await call(server, Tls(ca=ca).context())).code == 0
            with pytest.raises(NetworkError):
                await call(server, shown("stranger"))

    run(main())


def test_clients_check_servers(certs: Path) -> None:
    async def main() -> None:
        ca, other = str(certs / "ca.pem"), str(certs / "other-ca.pem")
        async with serving(ServerTls.of(settings(certs))) as server:
            with pytest.raises(NetworkError, match="certificate verify failed"):
                await call(server, Tls(ca=other).context())
            assert (await call(server, Tls(ca=other, verify="none").context())).code == 0
            assert (await call(server, Tls(ca=str(certs / "server.pem")).context())).code == 0
        network = AsyncioNetwork(client_tls=Tls(ca=ca).context())
        assert network is not None

    run(main())
    with pytest.raises(ClientError, match="expected full"):
        Tls(verify="sometimes").context()
    with pytest.raises(ClientError, match="No such file"):
        Tls(ca="/no/such/file").context()
    assert "hidden" not in repr(Tls(key_password="hidden"))


@pytest.mark.parametrize(
    "first",
    [
        b"plain bytes",
        struct.pack(">i", 40) + b"{}",
        b"\x16",  # and then nothing
        b"\x16\x03\x01\xff\xff" + b"x" * 100,
        b"\x16\x03\x01\x00\x05hello",
        b"\x16\x03\x03" + struct.pack(">H", 17000) + b"y" * 17000,
        b"PROXY TCP4 10.99.99.1 1.2.3.4 1 2\r\n",
        b"\x80\x2e\x01\x00\x02",  # a hello of SSL 2
    ],
)
def test_what_is_no_tls_is_closed_and_shown_nothing(certs: Path, first: bytes) -> None:
    async def main() -> None:
        async with serving(ServerTls.of(settings(certs))) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(first)
            if first == b"\x16":
                await asyncio.sleep(0)
                assert server.front is not None
                writer.close()
            else:
                got = await asyncio.wait_for(reader.read(), 5)
                assert len(got) <= 7  # at most an alert
                writer.close()
            assert (await call(server, Tls(ca=str(certs / "ca.pem")).context())).code == 0

    run(main())


def test_a_record_that_was_changed_ends_the_connection(certs: Path) -> None:
    async def main() -> None:
        async with serving(ServerTls.of(settings(certs))) as server:
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            context = Tls(ca=str(certs / "ca.pem")).context()
            tls = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            while True:
                try:
                    tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    writer.write(outgoing.read())
                    incoming.write(await asyncio.wait_for(reader.read(65536), 5))
            writer.write(outgoing.read())
            tls.write(Command(CODE, body=b"x").encode())
            record = bytearray(outgoing.read())
            record[-1] ^= 1
            writer.write(record)
            while await asyncio.wait_for(reader.read(65536), 5):
                pass
            writer.close()
            assert not server.connections

    run(main())


def test_certificates_are_read_again(certs: Path, tmp_path: Path) -> None:
    for ending in ("pem", "key"):
        (tmp_path / f"server.{ending}").write_bytes((certs / f"server.{ending}").read_bytes())
    tls = ServerTls.of(settings(tmp_path, server_trust=str(certs / "ca.pem")))
    assert tls is not None
    first = tls.context
    tls.look()
    assert tls.context is first
    (tmp_path / "server.pem").write_text("broken")
    tls.look()
    assert tls.context is first
    (tmp_path / "server.pem").write_bytes((certs / "server2.pem").read_bytes())
    tls.look()  # of another key: not yet
    assert tls.context is first
    (tmp_path / "server.key").write_bytes((certs / "server2.key").read_bytes())
    tls.look()
    assert tls.context is not first


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"server_cert": ""}, "tls.server.certPath"),
        ({"server_key": "/no/such"}, "No such file"),
        ({"server_key": "{certs}/server2.key"}, "MISMATCH"),
        ({"server_key": "{certs}/locked.key", "server_cert": "{certs}/locked.pem"}, "keyPath"),
        ({"need_client_auth": "require", "server_trust": ""}, "trustCertPath"),
        ({"need_client_auth": "require", "server_trust": "/no/such"}, "No such file"),
    ],
)
def test_bad_files_are_errors_at_start(certs: Path, changes: dict[str, str], text: str) -> None:
    given = {name: value.format(certs=certs) for name, value in changes.items()}
    with pytest.raises(ConfigError, match=text):
        ServerTls.of(settings(certs, **given))


def test_a_locked_key(certs: Path) -> None:
    pair = {"server_key": str(certs / "locked.key"), "server_cert": str(certs / "locked.pem")}
    found = settings(certs, **pair, server_key_password="changeit")
    assert ServerTls.of(found) is not None
    assert "changeit" not in repr(found)


def test_keys_and_the_file_they_name(certs: Path, tmp_path: Path) -> None:
    (tmp_path / "tls.properties").write_text(
        "tls.server.mode=disabled\ntls.server.certPath=certs/a.pem\ntls.server.keyPassword=hidden\n"
    )
    conf = str(tmp_path / "broker.conf")
    given = {"tls.server.mode": "enforcing", "tls.config.file": "tls.properties"}
    found = read_tls(given, config_path=conf)
    assert found.server_mode == "enforcing"  # the file does not hold it
    assert found.server_cert == str(tmp_path / "certs" / "a.pem")
    assert "hidden" not in repr(found)
    with pytest.raises(ConfigError, match=r"tls.config.file"):
        read_tls({"tls.config.file": "missing"}, config_path=conf)
    assert read_tls({}).server_mode == "disabled"
    assert read_tls({"tls.server.certPath": "x"}).server_mode == "permissive"
    assert read_tls({"tls.server.mode": "whatever"}).server_mode == "permissive"
    own = own_calls(settings(certs))
    assert own.enable
    assert client_context(own).verify_mode is ssl.CERT_REQUIRED
    assert client_context(own).check_hostname


def test_test_mode_is_asked_for_by_name() -> None:
    assert ServerTls.of(TlsSettings(mode="permissive")) is None
    with pytest.raises(ConfigError):
        ServerTls.of(TlsSettings(mode="enforcing"))

    async def main() -> None:
        async with serving(ServerTls.of(TlsSettings(test_mode=True))) as server:
            assert (await call(server, Tls(verify="none").context())).code == 0
            assert (await call(server, None)).code == 0

    run(main())


@pytest.mark.parametrize(
    "line",
    [
        b"PROXY TCP4 10.99.99.1 1.2.3.4 4711 9876\r\n",
        b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c"
        + bytes([10, 99, 99, 1, 1, 2, 3, 4, 18, 103, 1, 1]),
    ],
)
def test_proxy_lines_of_named_addresses_alone(line: bytes) -> None:
    async def ask(server: Server) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        for byte in line + Command(CODE, body=b"x").encode():
            writer.write(bytes([byte]))
        try:
            return await asyncio.wait_for(reader.read(1000), 5)
        except ConnectionResetError:
            return b""
        finally:
            writer.close()

    async def main() -> None:
        async with serving(None, AddressPatterns(["127.0.0.1"])) as server:
            assert b"10.99.99.1:4711" in await ask(server)
            assert (await call(server, None)).code == 0
        for proxies in (AddressPatterns(["10.0.0.1"]), None):
            async with serving(None, proxies) as server:
                assert await ask(server) == b""

    run(main())


@pytest.mark.parametrize(
    "line",
    [
        b"PROXY TCP4 nonsense 1.2.3.4 1 2\r\n",
        b"PROXY TCP4 1.2.3.4 1.2.3.4 99999 2\r\n",
        b"PROXY TCP4\r\n",
        b"PROXY " + b"x" * 200,
        b"\r\n\r\n\x00\r\nQUIT\n\x31\x11\x00\x0c" + bytes(12),
        b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\xff\xff" + bytes(12),
        b"Psomething",
    ],
)
def test_broken_proxy_lines(line: bytes) -> None:
    assert isinstance(parse_proxy_line(memoryview(line)), str)


def test_proxy_lines_without_an_address() -> None:
    assert parse_proxy_line(memoryview(b"PROXY UNKNOWN\r\nrest")) == (15, None)
    local = b"\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"
    assert parse_proxy_line(memoryview(local)) == (16, None)
    six = (
        b"\r\n\r\n\x00\r\nQUIT\n\x21\x21\x00\x24" + bytes(15) + b"\x01" + bytes(16) + b"\0\x05\0\0"
    )
    assert parse_proxy_line(memoryview(six)) == (52, ("::1", 5))
    for end in range(len(six)):
        assert parse_proxy_line(memoryview(six[:end])) is None
