"""Tokens: what is taken, what is refused, and that a token does not choose its algorithm."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils

from contrailmq.errors import ConfigError
from contrailmq.protocol.command import Command
from contrailmq.security.accounts import Accounts
from contrailmq.security.files import AccountFiles
from contrailmq.security.guard import AccessDenied, Guard
from contrailmq.security.tokens import Tokens
from contrailmq.testing.sim import SimClock

NOW_S = 1_800_000_000


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value: int) -> str:
    return b64(value.to_bytes((value.bit_length() + 7) // 8, "big"))


class Issuer:
    """Three keys, and what signs with them."""

    def __init__(self) -> None:
        self.rsa = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.ec = ec.generate_private_key(ec.SECP256R1())
        self.ed = ed25519.Ed25519PrivateKey.generate()

    def jwks(self) -> str:
        numbers, point = self.rsa.public_key().public_numbers(), self.ec.public_key()
        x, y = point.public_numbers().x, point.public_numbers().y
        keys = [
            {"kty": "RSA", "kid": "r", "n": number(numbers.n), "e": number(numbers.e)},
            {"kty": "EC", "crv": "P-256", "kid": "e", "x": number(x), "y": number(y)},
            {"kty": "OKP", "crv": "Ed25519", "kid": "d", "x": b64(self._raw())},
        ]
        return json.dumps({"keys": keys})

    def token(self, kid: str = "e", alg: str = "ES256", **claims: Any) -> str:
        given = {"sub": "appAccount", "exp": NOW_S + 60, "aud": "orders", **claims}
        head = b64(json.dumps({"alg": alg, "kid": kid}).encode())
        signed = f"{head}.{b64(json.dumps(given).encode())}"
        return f"{signed}.{b64(self._sign(kid, signed.encode()))}"

    def _sign(self, kid: str, signed: bytes) -> bytes:
        if kid == "r":
            return self.rsa.sign(signed, padding.PKCS1v15(), hashes.SHA256())
        if kid == "d":
            return self.ed.sign(signed)
        pair = utils.decode_dss_signature(self.ec.sign(signed, ec.ECDSA(hashes.SHA256())))
        return b"".join(part.to_bytes(32, "big") for part in pair)

    def _raw(self) -> bytes:
        return self.ed.public_key().public_bytes_raw()


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


class World:
    """A guard that takes tokens of an issuer."""

    def __init__(self, issuer: Issuer, folder: Path) -> None:
        self.clock = SimClock()
        self.clock.now_ms = lambda: NOW_S * 1000  # type: ignore[method-assign]
        self.keys = folder / "keys.json"
        self.keys.write_text(issuer.jwks())
        path = folder / "plain_acl.yml"
        path.write_text(
            "accounts:\n- {accessKey: appAccount, secretKey: appSecret, topicPerms: [T=PUB]}\n"
        )
        accounts = Accounts(AccountFiles(path), clock=self.clock)
        accounts.reload()
        self.tokens = Tokens(self.keys, audience="orders", clock=self.clock)
        self.tokens.start()
        self.guard = Guard(accounts, tokens=self.tokens)
        self.peer = "10.0.0.1:5"
        self.principals: tuple[str, ...] = ()

    def ask(self, token: str, topic: str = "T") -> str | None:
        fields = {"b": topic, "AccessKey": "any", "Signature": "x", "SecurityToken": token}
        try:
            self.guard.check(Command(310, fields=fields), self)
        except AccessDenied as refused:
            return refused.text
        return None


@pytest.mark.parametrize(("kid", "alg"), [("r", "RS256"), ("e", "ES256"), ("d", "EdDSA")])
def test_tokens_of_each_kind(issuer: Issuer, tmp_path: Path, kid: str, alg: str) -> None:
    world = World(issuer, tmp_path)
    token = issuer.token(kid, alg)
    assert world.ask(token) is None
    assert world.ask(token, "other") == "No default permission for topic:other"
    head, claims, signature = token.split(".")
    assert "not signed" in (world.ask(f"{head}.{claims}.{signature[:-4]}AAAA") or "")
    other = b64(json.dumps({"sub": "adminAccount", "exp": NOW_S + 60}).encode())
    assert "not signed" in (world.ask(f"{head}.{other}.{signature}") or "")


def test_what_is_refused(issuer: Issuer, tmp_path: Path) -> None:
    world = World(issuer, tmp_path)
    for token, text in (
        (issuer.token(exp=NOW_S - 60), "has ended"),
        (issuer.token(nbf=NOW_S + 600), "has not begun"),
        (issuer.token(exp="soon"), "needs sub and exp"),
        (issuer.token(exp=float("inf")), "needs sub and exp"),
        (issuer.token(aud="others"), "meant for others"),
        (issuer.token(sub="nobody"), "No acl config for nobody"),
        (issuer.token("r", "ES256"), "not signed"),  # the key decides, not the token
        (issuer.token("e", "none"), "not signed"),
        (issuer.token("x", "ES256"), "not signed"),
        (issuer.token("r", "HS256"), "not signed"),
        ("a.b.c", "is no token"),
        ("plain text", "No acl config for any"),  # as ever: signed with the rest, never looked at
    ):
        assert text in (world.ask(token) or ""), (text, world.ask(token))


def test_keys_that_change(issuer: Issuer, tmp_path: Path) -> None:
    world = World(issuer, tmp_path)
    token = issuer.token()
    assert world.ask(token) is None
    world.keys.write_text("{")
    world.tokens.look()
    assert world.ask(token) is None
    fresh = tmp_path / "fresh.json"
    fresh.write_text(Issuer().jwks())
    fresh.replace(world.keys)
    world.tokens.look()
    assert "not signed" in (world.ask(token) or "")


@pytest.mark.parametrize("text", ["", "[]", '{"keys": []}', '{"keys": [{"kty": "oct", "k": "x"}]}'])
def test_bad_key_files(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="aclTokenKeys"):
        Tokens(path, audience="", clock=SimClock()).start()
