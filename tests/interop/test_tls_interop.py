"""The unmodified Java clients and mqadmin over TLS, in every mode, with and without a name."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.interop.test_broker_interop import Up

from testkit.authority import make_certificates
from testkit.peer import VERSIONS, JavaClient, MqAdmin, Row

pytestmark = pytest.mark.timeout(240)

ACCOUNTS = Path(__file__).parents[1] / "golden" / "data" / "security" / "plain_acl.yml"
ADMIN = ("adminAccount", "adminSecret")


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("certs"))


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory, certs: Path) -> Iterator[Callable[..., Up]]:
    """``serve(mode, client_auth="none", acl=False)``: a cluster, shared by those who ask alike."""
    started: dict[Any, Up] = {}

    def start(mode: str, client_auth: str = "none", *, acl: bool = False) -> Up:
        wanted = (mode, client_auth, acl)
        if wanted not in started:
            home = tmp_path_factory.mktemp(f"tls-{mode}")
            own = home / "certs"
            shutil.copytree(certs, own)
            lines = {
                "tls.test.mode.enable": "false",
                "tls.server.need.client.auth": client_auth,
                "tls.server.authClient": "false" if client_auth == "none" else "true",
                "tls.server.keyPath": "certs/server.key",
                "tls.server.certPath": "certs/server.pem",
                "tls.server.trustCertPath": "certs/ca.pem",
                "tls.client.keyPath": "certs/server.key",
                "tls.client.certPath": "certs/server.pem",
                "tls.client.authServer": "true",
                "tls.client.trustCertPath": "certs/ca.pem",
            }
            text = "".join(f"{name}={value}\n" for name, value in lines.items())
            (home / "tls.properties").write_text(text)
            conf = {"tls.server.mode": mode, "tls.config.file": "tls.properties"}
            if mode == "enforcing":
                conf["tls.enable"] = "true"
            if acl:
                shutil.copy(ACCOUNTS, home / "plain_acl.yml")
                conf["aclEnable"] = "true"
            started[wanted] = Up(home, **conf)
        return started[wanted]

    yield start
    for up in started.values():
        up.stop()


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., JavaClient]]:
    """``client(version, *flags)``: a virtual machine with these properties."""
    started: dict[Any, JavaClient] = {}

    def start(version: str, *flags: str) -> JavaClient:
        if (version, flags) not in started:
            home = tmp_path_factory.mktemp("client")
            started[version, flags] = JavaClient(version, home, flags=flags)
        return started[version, flags]

    yield start
    for machine in started.values():
        machine.close()


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def checked(certs: Path, name: str | None = None) -> tuple[str, ...]:
    """Properties of a client that checks the server, and shows a certificate."""
    found = {
        "tls.enable": "true",
        "tls.test.mode.enable": "false",
        "tls.client.authServer": "true",
        "tls.client.trustCertPath": certs / "ca.pem",
    }
    if name is not None:
        found["tls.client.certPath"] = certs / f"{name}.pem"
        found["tls.client.keyPath"] = certs / f"{name}.key"
    return tuple(f"-D{key}={value}" for key, value in found.items())


def send(machine: JavaClient, up: Up, topic: str = "Orders", **more: Any) -> Row:
    call = machine.begin(
        "produce", namesrv=up.namesrv, topic=topic, group="pg", retries=0, timeoutMs=4000,
        messages=[{"body": "x" * 100}, {"body": "y" * 70000}], **more,
    )  # fmt: skip
    rows = call.finish()
    found = [row for row in rows if row["event"] in ("sent", "failed", "error")]
    assert found, rows
    return next((row for row in found if row["event"] != "sent"), found[0])


@pytest.mark.parametrize("mode", ["permissive", "enforcing"])
def test_over_tls(serve: Any, client: Any, certs: Path, version: str, mode: str) -> None:
    up, machine = serve(mode), client(version, *checked(certs))
    topic = f"Orders{version.replace('.', '')}{mode}"
    assert send(machine, up, topic, tls=True)["event"] == "sent"
    for command in ("consume", "litepull"):
        call = machine.begin(
            command, namesrv=up.namesrv, topic=topic, group=f"g{command}{mode}{version[0]}",
            count=2, timeoutMs=30000, tls=True,
        )  # fmt: skip
        assert len([row for row in call.finish() if row["event"] == "message"]) == 2


def test_plain_clients(serve: Any, client: Any, certs: Path, version: str) -> None:
    machine = client(version)
    assert send(machine, serve("permissive"))["event"] == "sent"
    assert send(machine, serve("disabled"))["event"] == "sent"
    assert send(machine, serve("enforcing"))["event"] != "sent"
    assert send(client(version, *checked(certs)), serve("disabled"), tls=True)["event"] != "sent"


def test_clients_that_show_certificates(serve: Any, client: Any, certs: Path, version: str) -> None:
    up = serve("enforcing", "require")
    assert send(client(version, *checked(certs, "client")), up, tls=True)["event"] == "sent"
    for name in (None, "stranger", "expired"):
        assert send(client(version, *checked(certs, name)), up, tls=True)["event"] != "sent", name
    optional = serve("enforcing", "optional")
    assert send(client(version, *checked(certs)), optional, tls=True)["event"] == "sent"
    assert send(client(version, *checked(certs, "client")), optional, tls=True)["event"] == "sent"
    stranger = client(version, *checked(certs, "stranger"))
    assert send(stranger, optional, tls=True)["event"] != "sent"


def test_accounts_over_tls(
    serve: Any, client: Any, certs: Path, version: str, tmp_path: Path
) -> None:
    up, machine = serve("enforcing", acl=True), client(version, *checked(certs))
    tool = MqAdmin(version, tmp_path, account=ADMIN, flags=checked(certs))
    try:
        words = ("updateTopic", "-b", up.broker, "-t", "sec_both", "-n", up.namesrv)
        assert "success" in tool.run(*words)
    finally:
        tool.close()
    key = {"accessKey": "appAccount", "secretKey": "appSecret"}
    assert send(machine, up, "sec_both", tls=True, **key)["event"] == "sent"
    refused = send(machine, up, "sec_both", tls=True)
    assert "No accessKey is configured" in refused["cause"]


def test_a_certificate_is_an_account(serve: Any, client: Any, certs: Path, version: str) -> None:
    """Ours: the common name of a checked certificate acts without a signature."""
    up = serve("enforcing", "require", acl=True)
    machine = client(version, *checked(certs, "client"))
    call = client(version, *checked(certs, "client")).begin(
        "admin", namesrv=up.namesrv, broker=up.broker, topic="sec_both", do="createTopic",
        tls=True, accessKey=ADMIN[0], secretKey=ADMIN[1],
    )  # fmt: skip
    call.finish()
    assert send(machine, up, "sec_both", tls=True)["event"] == "sent"
    assert "topic:sec_any" in send(machine, up, "sec_any", tls=True)["cause"]


def served_name(up: Up, certs: Path, *, port: int) -> str:
    context = ssl.create_default_context(cafile=str(certs / "ca.pem"))
    with (
        socket.create_connection(("127.0.0.1", port), 5) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as tls,
    ):
        found: Any = tls.getpeercert()
        return str(dict(part[0] for part in found["subject"])["commonName"])


def test_certificates_are_read_again(serve: Any, certs: Path) -> None:
    up = serve("permissive")
    ports = (up.port, up.port - 2, up.namesrv_port)
    assert {served_name(up, certs, port=port) for port in ports} == {"contrail-server-1"}
    own = up.home / "certs"
    (own / "server.pem").write_text("no certificate")
    time.sleep(1.2)
    assert served_name(up, certs, port=up.port) == "contrail-server-1"
    for ending in ("key", "pem"):
        fresh = own / f"fresh.{ending}"
        shutil.copy(certs / f"server2.{ending}", fresh)
        fresh.replace(own / f"server.{ending}")
    deadline = time.monotonic() + 3
    while {served_name(up, certs, port=port) for port in ports} != {"contrail-server-2"}:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    os.kill(up.process.pid, signal.SIGHUP)
    assert served_name(up, certs, port=up.port) == "contrail-server-2"
