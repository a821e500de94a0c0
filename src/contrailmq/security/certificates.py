"""Certificates for a cluster: an authority of its own, and what it issues. Keys are P-256.

The package ``cryptography`` is loaded when something is made or shown, not before.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from contrailmq.clock import Clock
from contrailmq.errors import ConfigError

AUTHORITY_DAYS: Final = 3650
LEAF_DAYS: Final = 825
SKEW: Final = datetime.timedelta(hours=1)


def make_authority(folder: Path, *, clock: Clock, name: str = "ContrailMQ authority") -> Path:
    """Make ``ca.pem`` and ``ca.key`` in a folder; ConfigError when there is one already."""
    x509, ec, hashes = _library()
    path = folder / "ca.pem"
    if path.exists() or (folder / "ca.key").exists():
        raise ConfigError(f"{path}: there is an authority already; nothing was changed")
    key = ec.generate_private_key(ec.SECP256R1())
    usage = x509.KeyUsage(
        digital_signature=False, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, key_cert_sign=True, crl_sign=True,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip
    builder = _builder(name, _name(name), key.public_key(), days=AUTHORITY_DAYS, clock=clock)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(usage, critical=True)
    builder = builder.add_extension(
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
    )
    _write(folder, "ca", key, builder.sign(key, hashes.SHA256()))
    return path


def issue(folder: Path, name: str, *, hosts: Sequence[str], clock: Clock, file: str = "") -> Path:
    """Make a certificate of the folder's authority; without hosts it is a client's.

    The files are ``NAME.pem`` and ``NAME.key``, or begin with ``file``.
    """
    x509, ec, hashes = _library()
    from cryptography.hazmat.primitives import serialization

    try:
        authority = x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes())
        signer: Any = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
    except (OSError, ValueError):
        raise ConfigError(f"{folder}: no authority here; contrail cert init makes one") from None
    key = ec.generate_private_key(ec.SECP256R1())
    oid = x509.oid.ExtendedKeyUsageOID
    usages = [oid.CLIENT_AUTH, *([oid.SERVER_AUTH] if hosts else [])]
    builder = _builder(name, authority.subject, key.public_key(), days=LEAF_DAYS, clock=clock)
    names = [_general_name(host) for host in hosts] or [x509.DNSName(name)]
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    builder = builder.add_extension(
        x509.BasicConstraints(ca=False, path_length=None), critical=True
    )
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
    )
    _write(folder, file or name, key, builder.sign(signer, hashes.SHA256()))
    return folder / f"{file or name}.pem"


def describe(path: Path) -> dict[str, Any]:
    """What a certificate says: its name, its issuer, hosts, and when it ends."""
    x509, _, _ = _library()
    try:
        found = x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: no certificate: {type(error).__name__}") from None
    try:
        kind = x509.SubjectAlternativeName
        hosts = [str(name.value) for name in found.extensions.get_extension_for_class(kind).value]
    except x509.ExtensionNotFound:
        hosts = []
    return {
        "path": str(path),
        "subject": found.subject.rfc4514_string(),
        "issuer": found.issuer.rfc4514_string(),
        "hosts": hosts,
        "from": found.not_valid_before_utc.isoformat(),
        "until": found.not_valid_after_utc.isoformat(),
        "until_ms": int(found.not_valid_after_utc.timestamp() * 1000),
    }


def ends_ms(certificate: bytes) -> int:
    """When a certificate in DER form ends."""
    x509, _, _ = _library()
    found = x509.load_der_x509_certificate(certificate)
    return int(found.not_valid_after_utc.timestamp() * 1000)


def _general_name(host: str) -> Any:
    x509, _, _ = _library()
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _builder(name: str, issuer: Any, public: Any, *, days: int, clock: Clock) -> Any:
    x509, _, _ = _library()
    now = datetime.datetime.fromtimestamp(clock.now_ms() / 1000, datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _name(text: str) -> Any:
    x509, _, _ = _library()
    return x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, text)])


def _write(folder: Path, name: str, key: Any, certificate: Any) -> None:
    from cryptography.hazmat.primitives import serialization

    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for path, data, mode in (
        (folder / f"{name}.key", text, 0o600),
        (folder / f"{name}.pem", certificate.public_bytes(serialization.Encoding.PEM), 0o644),
    ):
        fresh = path.with_name(f".{path.name}.new")
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as out:
            out.write(data)
        fresh.replace(path)


def _library() -> tuple[Any, Any, Any]:
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError:
        raise ConfigError("certificates need the package cryptography: pip install it") from None
    return x509, ec, hashes
