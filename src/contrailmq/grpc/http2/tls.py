"""TLS of a gRPC port: SDKs of most languages speak it by default and trust any certificate."""

from __future__ import annotations

import dataclasses
from typing import Final

from contrailmq.net.tls import ServerTls
from contrailmq.net.tls_settings import TlsSettings

ALPN: Final = ("h2",)


def grpc_tls(settings: TlsSettings) -> ServerTls:
    """What a gRPC port shows: the server's certificate, or one made now that proves nothing.

    Plain text is taken too, unless the server's other ports take TLS only.  Raises ConfigError.
    """
    if settings.server_mode != "enforcing":
        is_made = settings.test_mode or not settings.server_cert
        settings = dataclasses.replace(settings, mode="permissive", test_mode=is_made)
    found = ServerTls.of(settings, alpn=ALPN)
    assert found is not None
    return found
