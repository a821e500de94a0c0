"""A certificate for tests over TLS."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from contrailmq.net.network import AsyncioNetwork


def self_signed(directory: Path) -> Path:
    """A fresh key and certificate for 127.0.0.1 in one file; skips the test without openssl."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl to make a certificate with")
    path = directory / "both.pem"
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-keyout", str(path), "-out", str(path.with_suffix(".crt"))]
    command += ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    with path.open("ab") as both:
        both.write(path.with_suffix(".crt").read_bytes())
    return path


def tls_network(certificate: Path) -> AsyncioNetwork:
    """Sockets that speak TLS at both ends, and trust that certificate alone."""
    ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ours.load_cert_chain(certificate)
    theirs = ssl.create_default_context(cafile=str(certificate))
    return AsyncioNetwork(client_tls=theirs, server_tls=ours)
