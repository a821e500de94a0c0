"""A gRPC server on real sockets: TLS and plain text on one port."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest

from contrailmq.clock import SystemClock
from contrailmq.grpc.call import Call, Unary
from contrailmq.grpc.http2.limits import Http2Limits
from contrailmq.grpc.http2.server import GrpcServer
from contrailmq.grpc.http2.tls import grpc_tls
from contrailmq.net.loop import loop_factory
from contrailmq.net.tls_settings import TlsSettings
from testkit.authority import make_certificates
from testkit.http2 import OraclePeer


def about(call: Call, message: bytes) -> bytes:
    return f"{call.is_tls} {call.peer.split(':')[0]} ".encode() + message


async def serve(settings: TlsSettings) -> GrpcServer:
    server = GrpcServer(
        {"/t/About": Unary(about)},
        Http2Limits(drain_s=0.05),
        clock=SystemClock(),
        tls=grpc_tls(settings),
    )
    await server.start("127.0.0.1", 0)
    return server


async def connect(server: GrpcServer, tls: ssl.SSLContext | None) -> OraclePeer:
    _, peer = await asyncio.get_running_loop().create_connection(
        OraclePeer, "127.0.0.1", server.port, ssl=tls
    )
    return peer


def trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context


@pytest.fixture(scope="session", autouse=True)
def _libuv() -> None:
    factory = loop_factory()
    if factory is not None:
        factory().close()


@pytest.mark.parametrize("loops", ["uvloop", "asyncio"])
def test_tls_and_plain_text_on_one_port(loops: str) -> None:
    async def main() -> None:
        server = await serve(TlsSettings())
        try:
            for tls, word in ((trusting(), b"True"), (None, b"False")):
                peer = await connect(server, tls)
                if tls is not None:
                    session: Any = peer.transport.get_extra_info("ssl_object")
                    assert session.selected_alpn_protocol() == "h2"
                for size in (0, 100, 200_000):
                    answer = await peer.call("/t/About", bytes(size))
                    assert answer.messages == [word + b" 127.0.0.1 " + bytes(size)]
                peer.transport.close()
        finally:
            await server.aclose()

    with asyncio.Runner(loop_factory=loop_factory() if loops == "uvloop" else None) as runner:
        runner.run(main())


def test_a_configured_certificate_is_shown_and_its_mode_holds(tmp_path: Path) -> None:
    certs = make_certificates(tmp_path)
    settings = TlsSettings(
        mode="enforcing",
        server_cert=str(certs / "server.pem"),
        server_key=str(certs / "server.key"),
    )

    async def main() -> None:
        server = await serve(settings)
        try:
            context = ssl.create_default_context(cafile=str(certs / "ca.pem"))
            context.check_hostname = False
            context.set_alpn_protocols(["h2"])
            peer = await connect(server, context)
            assert (await peer.call("/t/About")).status == 0
            assert server.front is not None
            assert server.front.tls is not None
            server.front.tls.look(always=True)  # read again: the protocol stays named
            again = await connect(server, context)
            session: Any = again.transport.get_extra_info("ssl_object")
            assert session.selected_alpn_protocol() == "h2"
            plain = await connect(server, None)
            with pytest.raises(AssertionError, match="the connection ended"):
                await plain.call("/t/About")
            for one in (peer, again):
                one.transport.close()
        finally:
            await server.aclose()

    asyncio.run(main())
