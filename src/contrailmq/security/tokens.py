"""JSON Web Tokens in the SecurityToken of a request: who it is, by a key set in a local file.

The file is a JWKS (RFC 7517) with public keys of kind RSA, EC (P-256) or OKP (Ed25519).  A token
(RFC 7519) is taken if its algorithm is the one of its key, its signature is right, it has not ended
(``exp`` is required), has begun (``nbf``), and is meant for this cluster where an audience is set.
Its subject (``sub``) is the account whose permissions it has.  Nothing is fetched from anywhere.

A token speaks for itself: who holds it needs no secret, so it belongs on TLS connections only.
"""

from __future__ import annotations

import base64
import json
import logging
import math
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils

from contrailmq.clock import Clock
from contrailmq.errors import ConfigError
from contrailmq.security.account import Account
from contrailmq.security.accounts import Accounts
from contrailmq.security.guard import AccessDenied

log = logging.getLogger(__name__)

FILE_SIZE_MAX: Final = 1024 * 1024
TOKEN_SIZE_MAX: Final = 16 * 1024
KNOWN_MAX: Final = 10_000  # tokens that were verified; beyond, all are verified again
LEEWAY_S: Final = 30
TIME_MAX_S: Final = 1e11  # some thousand years
_P256_SIZE: Final = 32
_RSA_BITS_MIN: Final = 2048

Key = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey


class Tokens:
    """Verifies tokens by the keys of a file, which may change while the server runs."""

    def __init__(self, path: Path, *, audience: str, clock: Clock) -> None:
        self._path = path
        self._audience = audience
        self._clock = clock
        self._keys: dict[str, Key] = {}
        self._known: dict[str, tuple[str, float, float]] = {}
        self._stamp: object = None

    def start(self) -> None:
        """Read the keys; raises ConfigError."""
        self._stamp = self._file_stamp()
        self._keys = read_keys(self._path)
        self._known.clear()

    def look(self) -> None:
        """Read the keys again if the file has changed; one that cannot be used changes nothing."""
        stamp = self._file_stamp()
        if stamp == self._stamp:
            return
        try:
            self.start()
        except ConfigError as error:
            self._stamp = stamp
            log.warning("the keys of tokens stay as they were: %s", error)

    def account_of(self, token: str, accounts: Accounts) -> Account | None:
        """The account a token speaks for; None for other text. Raises AccessDenied."""
        if token.count(".") != 2 or len(token) > TOKEN_SIZE_MAX:
            return None
        found = self._known.get(token)
        if found is None:
            found = self._verified(token)
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[token] = found
        name, begins_s, ends_s = found
        now_s = self._clock.now_ms() / 1000
        if now_s > ends_s + LEEWAY_S:
            raise AccessDenied("the SecurityToken has ended (exp)")
        if now_s < begins_s - LEEWAY_S:
            raise AccessDenied("the SecurityToken has not begun (nbf)")
        account = accounts.table.accounts.get(name)
        if account is None or not account.is_enabled:
            raise AccessDenied(f"No acl config for {name}")
        return account

    def _verified(self, token: str) -> tuple[str, float, float]:
        first, second, third = token.split(".")
        try:
            head, claims = json.loads(_decoded(first)), json.loads(_decoded(second))
            signature = _decoded(third)
        except ValueError:
            raise AccessDenied("the SecurityToken is no token") from None
        if not isinstance(head, dict) or not isinstance(claims, dict):
            raise AccessDenied("the SecurityToken is no token")
        key = self._key(head.get("kid"))
        signed = f"{first}.{second}".encode()
        if key is None or not _is_signed(key, head.get("alg"), signed, signature):
            raise AccessDenied("the SecurityToken is not signed by a key of this server")
        name, begins, ends = claims.get("sub"), claims.get("nbf", 0), claims.get("exp")
        times = [_seconds(begins), _seconds(ends)]
        if not isinstance(name, str) or not name or not all(map(math.isfinite, times)):
            raise AccessDenied("the SecurityToken needs sub and exp")
        audience = claims.get("aud")
        named = audience if isinstance(audience, list) else [audience]
        if self._audience and self._audience not in named:
            raise AccessDenied("the SecurityToken is meant for others (aud)")
        return name, times[0], times[1]

    def _key(self, name: object) -> Key | None:
        if name is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(name) if isinstance(name, str) else None

    def _file_stamp(self) -> object:
        try:
            stat = self._path.stat()
        except OSError:
            return None
        return stat.st_mtime_ns, stat.st_size, stat.st_ino


def read_keys(path: Path) -> dict[str, Key]:
    """The keys of a JWKS file by their names; raises ConfigError."""
    try:
        if path.stat().st_size > FILE_SIZE_MAX:
            raise ConfigError(f"{path}: larger than {FILE_SIZE_MAX} bytes")
        listed = json.loads(path.read_text(encoding="utf-8"))["keys"]
        found = {str(one.get("kid") or number): _public(one) for number, one in enumerate(listed)}
    except OSError as error:
        raise ConfigError(f"aclTokenKeys = {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ConfigError(
            f"aclTokenKeys = {path}: expected a JWKS, "
            '{"keys": [{"kty": "RSA" or "EC" or "OKP", "kid": …}]}'
        ) from None
    if not found:
        raise ConfigError(f"aclTokenKeys = {path}: there is no key in it")
    return found


def _public(one: dict[str, Any]) -> Key:
    if one["kty"] == "RSA":
        key = rsa.RSAPublicNumbers(_number(one["e"]), _number(one["n"])).public_key()
        if key.key_size < _RSA_BITS_MIN:
            raise ValueError("an RSA key of fewer than 2048 bits")
        return key
    if one["kty"] == "EC" and one["crv"] == "P-256":
        numbers = ec.EllipticCurvePublicNumbers(
            _number(one["x"]), _number(one["y"]), ec.SECP256R1()
        )
        return numbers.public_key()
    if one["kty"] == "OKP" and one["crv"] == "Ed25519":
        return ed25519.Ed25519PublicKey.from_public_bytes(_decoded(one["x"]))
    raise ValueError("a key of another kind")


def _is_signed(key: Key, algorithm: object, signed: bytes, signature: bytes) -> bool:
    """Whether a key signed it, by the one algorithm of its kind: a token does not choose."""
    try:
        if isinstance(key, rsa.RSAPublicKey) and algorithm == "RS256":
            key.verify(signature, signed, padding.PKCS1v15(), hashes.SHA256())
        elif isinstance(key, ec.EllipticCurvePublicKey) and algorithm == "ES256":
            if len(signature) != 2 * _P256_SIZE:
                return False
            halves = signature[:_P256_SIZE], signature[_P256_SIZE:]
            pair = utils.encode_dss_signature(*(int.from_bytes(half, "big") for half in halves))
            key.verify(pair, signed, ec.ECDSA(hashes.SHA256()))
        elif isinstance(key, ed25519.Ed25519PublicKey) and algorithm == "EdDSA":
            key.verify(signature, signed)
        else:
            return False
    except InvalidSignature:
        return False
    return True


def _decoded(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def _number(text: str) -> int:
    return int.from_bytes(_decoded(text), "big")


def _seconds(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return math.nan
    return float(value) if abs(value) < TIME_MAX_S else math.nan
