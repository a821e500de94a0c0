"""Certificates for tests: an authority, servers and clients, a stranger, one that has ended."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Pair = tuple[ec.EllipticCurvePrivateKey, x509.Certificate]
PASSWORD = b"changeit"


def make_certificates(folder: Path) -> Path:
    """``ca``, ``server``, ``server2``, ``client`` (CN=appAccount), ``stranger``, ``expired``."""
    ours, other = _authority("test authority"), _authority("another authority")
    _write(folder, "ca", ours)
    _write(folder, "other-ca", other)
    _write(folder, "server", _leaf("contrail-server-1", ours))
    _write(folder, "server2", _leaf("contrail-server-2", ours))
    _write(folder, "client", _leaf("appAccount", ours))
    _write(folder, "stranger", _leaf("appAccount", other))
    _write(folder, "expired", _leaf("appAccount", ours, ended=True))
    locked = _leaf("contrail-server-1", ours)
    _write(folder, "locked", locked, password=PASSWORD)
    return folder


def _authority(name: str) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(name, name, key, ended=False).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    return key, builder.sign(key, hashes.SHA256())


def _leaf(name: str, authority: Pair, *, ended: bool = False) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = authority[1].subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
    names = [
        x509.DNSName("localhost"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        x509.IPAddress(ipaddress.ip_address("::1")),
    ]
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = (
        _builder(name, str(issuer), key, ended=ended)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=False)
    )
    return key, builder.sign(authority[0], hashes.SHA256())


def _builder(
    name: str, issuer: str, key: ec.EllipticCurvePrivateKey, *, ended: bool
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    first, last = (now - 20 * day, now - 10 * day) if ended else (now - day, now + 100 * day)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(first)
        .not_valid_after(last)
    )


def _name(text: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "ContrailMQ test"),
            x509.NameAttribute(NameOID.COMMON_NAME, text),
        ]
    )


def _write(folder: Path, name: str, pair: Pair, *, password: bytes | None = None) -> None:
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password is not None:
        encryption = serialization.BestAvailableEncryption(password)
    text = pair[0].private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
    )
    path = folder / f"{name}.key"
    path.touch(mode=0o600)
    path.write_bytes(text)
    (folder / f"{name}.pem").write_bytes(pair[1].public_bytes(serialization.Encoding.PEM))
