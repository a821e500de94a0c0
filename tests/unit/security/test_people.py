"""Accounts and certificates for people: the commands, the first start, the audit, what is told."""

from __future__ import annotations

import asyncio
import io
import json
import ssl
import stat
from pathlib import Path
from typing import Any

import pytest

from contrailmq.admin.commands import account, cert
from contrailmq.clock import SystemClock
from contrailmq.errors import ClientError, ConfigError
from contrailmq.protocol.acl import ACCESS_KEY, signed
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.names import AUDIT_TOPIC
from contrailmq.security.accounts import Accounts
from contrailmq.security.audit import PER_SECOND, Audit
from contrailmq.security.exposure import exposure
from contrailmq.security.files import AccountFiles
from contrailmq.security.first_start import ADMIN, secure
from contrailmq.security.guard import AccessDenied, Guard


class At:
    """A connection."""

    peer = "192.0.2.1:4711"
    principals: tuple[str, ...] = ()


class Still:
    """A clock that is set by hand."""

    ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


def run(module: Any, *words: str) -> tuple[int, str]:
    out = io.StringIO()
    return module.main(list(words), out), out.getvalue()


def test_an_account_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    file = ("--file", str(tmp_path / "plain_acl.yml"))
    code, said = run(account, "add", "shop-account", "--pub", "orders", "events.*", *file)
    assert code == 0
    first = said.split("secret  ")[1].split()[0]
    with pytest.raises(ClientError, match="already"):
        run(account, "add", "shop-account", *file)
    assert run(account, "test", "shop-account", "SEND", "events.eu", *file) == (
        0, "allowed: topicPerms events.*=PUB\n",
    )  # fmt: skip
    assert run(account, "test", "shop-account", "READ", "orders", *file)[0] == 1
    run(account, "grant", "shop-account", "--sub", "orders", "--group", "billing", *file)
    assert run(account, "test", "shop-account", "READ", "orders", *file)[0] == 0
    assert run(account, "test", "shop-account", "GROUP", "billing", *file)[0] == 0
    run(account, "revoke", "shop-account", "--pub", "orders", *file)
    assert run(account, "test", "shop-account", "SEND", "orders", *file)[0] == 1
    said = run(account, "rotate", "shop-account", "--json", *file)[1]
    second = json.loads(said)["secret"]
    files = AccountFiles(tmp_path / "plain_acl.yml")
    found = files.load(SystemClock().now_ms()).accounts["shop-account"]
    assert found.secrets == (second, first)
    said = run(account, "list", *file)[1]
    assert first not in said
    assert second not in said
    assert run(account, "remove", "shop-account", *file)[0] == 0
    with pytest.raises(ClientError, match="no account"):
        run(account, "remove", "shop-account", *file)


def test_an_old_secret_ends_by_itself(tmp_path: Path) -> None:
    clock = Still()
    text = "accounts: [{accessKey: rotating, secretKey: newSecret, oldSecretKey: oldSecret,"
    (tmp_path / "p.yml").write_text(f"{text} oldSecretUntil: 1001000}}]")
    accounts = Accounts(AccountFiles(tmp_path / "p.yml"), clock=clock)
    accounts.reload()
    guard = Guard(accounts)
    old = signed({"b": "x"}, b"", access_key="rotating", secret_key="oldSecret")
    request = Command(RequestCode.GET_BROKER_RUNTIME_INFO, fields=old)
    guard.check(request, At())
    clock.ms = 1_001_000
    accounts.look()
    with pytest.raises(AccessDenied, match="Check signature failed"):
        guard.check(request, At())


def test_certificates(tmp_path: Path) -> None:
    folder = ("--dir", str(tmp_path))
    code, said = run(cert, "init", *folder, "--host", "mq1.example.org", "127.0.0.1")
    assert code == 0
    assert "tls.server.certPath=" in said
    with pytest.raises(ConfigError, match="already"):
        run(cert, "init", *folder)
    run(cert, "issue", "shop-account", *folder)
    shown = json.loads(run(cert, "show", str(tmp_path / "server.pem"), "--json")[1])
    assert shown["hosts"] == ["mq1.example.org", "127.0.0.1"]
    assert 800 < shown["days_left"] < 830
    for name in ("ca", "server", "shop-account"):
        assert stat.S_IMODE((tmp_path / f"{name}.key").stat().st_mode) == 0o600
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / f"{name}.pem", tmp_path / f"{name}.key")
    with pytest.raises(ConfigError, match="contrail cert init"):
        run(cert, "issue", "x", "--dir", str(tmp_path / "none"))


def test_the_first_start_makes_what_is_missing_and_tells_it_once(tmp_path: Path) -> None:
    first = secure(tmp_path / "s", hosts=["127.0.0.1"], clock=SystemClock())
    assert first.secret is not None
    told = first.told("127.0.0.1:9876")
    assert all(word in told for word in ("Python", "Java", "Go", first.secret))
    assert first.secret not in repr(first)
    table = AccountFiles(first.accounts).load()
    assert table.accounts[ADMIN].is_admin
    before = (tmp_path / "s" / "server.pem").read_bytes()
    again = secure(tmp_path / "s", hosts=["127.0.0.1"], clock=SystemClock())
    assert again.told("x") == ""
    assert (tmp_path / "s" / "server.pem").read_bytes() == before


@pytest.fixture
def guard(tmp_path: Path) -> Guard:
    text = (
        "accounts:\n- {accessKey: anAdmin, secretKey: adminSecret, admin: true}\n"
        "- {accessKey: aWriter, secretKey: writerSecret, defaultTopicPerm: PUB|SUB}\n"
    )
    (tmp_path / "p.yml").write_text(text)
    accounts = Accounts(AccountFiles(tmp_path / "p.yml"), clock=SystemClock())
    accounts.reload()
    return Guard(accounts)


def asked(code: int, name: str, secret: str, **fields: str) -> Command:
    return Command(code, fields=signed(fields, b"", access_key=name, secret_key=secret))


def test_the_audit_notes_refusals_and_administration(guard: Guard, tmp_path: Path) -> None:
    audit = Audit(tmp_path / "audit.log", clock=Still())
    entries: list[dict[str, Any]] = []
    audit.on_entry = lambda entry: entries.append(json.loads(entry))
    audit.watch(guard)
    guard.check(asked(RequestCode.SEND_MESSAGE_V2, "aWriter", "writerSecret", b="T"), At())
    guard.check(asked(RequestCode.DELETE_ACL_CONFIG, "anAdmin", "adminSecret", accessKey="x"), At())
    with pytest.raises(AccessDenied):
        guard.check(asked(RequestCode.SEND_MESSAGE_V2, "aWriter", "wrongSecret", b="T"), At())
    audit.handshake_failed("192.0.2.9:1", "TLS: NO_SHARED_CIPHER")
    assert [(e["event"], e["verdict"]) for e in entries] == [
        ("request", "allowed"), ("request", "refused"), ("handshake", "failed"),
    ]  # fmt: skip
    assert entries[0]["resource"] == {"accessKey": "x"}
    assert entries[1]["account"] == "aWriter"
    audit.flush()
    text = (tmp_path / "audit.log").read_text()
    assert [json.loads(line) for line in text.splitlines()] == entries
    assert "Secret" not in text
    assert "Signature" not in text
    assert stat.S_IMODE((tmp_path / "audit.log").stat().st_mode) == 0o600


def test_a_flood_is_counted(guard: Guard) -> None:
    clock = Still()
    audit = Audit(None, clock=clock)
    entries: list[dict[str, Any]] = []
    audit.on_entry = lambda entry: entries.append(json.loads(entry))
    for _ in range(PER_SECOND + 5):
        audit.handshake_failed("a:1", "x")
    clock.ms += 1000
    audit.handshake_failed("a:1", "x")
    assert len(entries) == PER_SECOND + 2
    assert entries[-2]["count"] == 5


def test_the_audit_runs(tmp_path: Path) -> None:
    async def main() -> None:
        audit = Audit(tmp_path / "deep" / "audit.log", clock=Still())
        audit.handshake_failed("a:1", "x")
        task = asyncio.ensure_future(audit.run())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())
    assert (tmp_path / "deep" / "audit.log").read_text().count("\n") == 1


def test_only_administrators_reach_the_audit(guard: Guard) -> None:
    for code, field in ((RequestCode.SEND_MESSAGE_V2, "b"), (RequestCode.QUERY_MESSAGE, "topic")):
        with pytest.raises(AccessDenied, match=AUDIT_TOPIC):
            guard.check(asked(code, "aWriter", "writerSecret", **{field: AUDIT_TOPIC}), At())
        guard.check(asked(code, "anAdmin", "adminSecret", **{field: AUDIT_TOPIC}), At())


def test_a_replayed_or_changed_request(guard: Guard) -> None:
    """A signature holds for the same bytes on any connection: what TLS is for; nothing else."""
    request = asked(RequestCode.SEND_MESSAGE_V2, "aWriter", "writerSecret", b="T")
    guard.check(request, At())
    guard.check(request, At())
    for name, value in (("b", "U"), (ACCESS_KEY, "anAdmin"), ("more", "x")):
        changed = Command(request.code, fields={**request.fields, name: value})
        with pytest.raises(AccessDenied, match="Check signature failed"):
            guard.check(changed, At())
    with pytest.raises(AccessDenied):
        guard.check(Command(request.code, fields=request.fields, body=b"x"), At())


def test_open_doors_are_said() -> None:
    assert exposure("127.0.0.1", acl=False, tls_only=False) is None
    assert exposure("0.0.0.0", acl=True, tls_only=True) is None
    for acl in (False, True):
        told = exposure("10.0.0.5", acl=acl, tls_only=False)
        assert told is not None
        assert len(told.splitlines()) == 3
        assert "Remedy: contrail" in told
