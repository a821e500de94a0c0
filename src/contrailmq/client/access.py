"""Where a cluster is and who asks: addresses of name servers, and an account.

Apart from the other settings, because it is all that a short process (a task of Spark, say) needs
of them: nothing here loads an event loop.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from contrailmq.errors import ClientError
from contrailmq.protocol.hosts import split_address

if TYPE_CHECKING:
    import ssl

NAME_SERVERS_VARIABLE: Final = "NAMESRV_ADDR"
VERIFY_WORDS: Final = ("full", "chain", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """An account of the broker's access control list; requests are signed with it."""

    access_key: str
    """The name of the account."""
    secret_key: str = field(repr=False)
    """The secret that requests are signed with; it is never sent or shown."""
    security_token: str | None = field(default=None, repr=False)
    """A temporary token that is sent with each request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """TLS to name servers and brokers. The server's certificate and host name are checked.

    ``ca`` is a PEM file of authorities, None those of the system; ``cert`` and ``key`` are what we
    show. ``verify`` is ``full``, ``chain`` (any host name) or ``none``.
    """

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    key_password: str | None = field(default=None, repr=False)
    verify: str = "full"

    def context(self) -> ssl.SSLContext:
        """Make the context of connections; raises ClientError."""
        import ssl  # here, so that tasks of Spark without TLS do not load it

        if self.verify not in VERIFY_WORDS:
            raise ClientError(f"TLS verify={self.verify!r}: expected {', '.join(VERIFY_WORDS)}")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # a server's own may be named
        context.check_hostname = self.verify == "full"
        if self.verify == "none":
            context.verify_mode = ssl.CERT_NONE
        try:
            if self.ca is not None:
                context.load_verify_locations(self.ca)
            else:
                context.load_default_certs()
            if self.cert is not None:
                context.load_cert_chain(self.cert, self.key, password=self.key_password or "")
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or getattr(error, "strerror", None)
            raise ClientError(
                f"TLS files ca={self.ca} cert={self.cert} key={self.key}: "
                f"{reason or type(error).__name__}"
            ) from None
        return context


def name_server_list(given: str | Sequence[str] | None) -> list[str]:
    """Addresses as given, or else those of ``NAMESRV_ADDR``; ``;`` and ``,`` separate."""
    if given is None:
        given = os.environ.get(NAME_SERVERS_VARIABLE, "")
    return _addresses(given, "name server", "127.0.0.1:9876")


def places(
    name_servers: str | Sequence[str] | None, endpoints: str | Sequence[str] | None
) -> list[str]:
    """Where a client begins: the gRPC ports it was given, else name servers."""
    if endpoints is None:
        return name_server_list(name_servers)
    if name_servers is not None:
        raise ClientError("name_servers and endpoints are both given; give one of them")
    found = _addresses(endpoints, "endpoint", "127.0.0.1:8081")
    if not found:
        raise ClientError("endpoints is empty; give the gRPC port, for example 127.0.0.1:8081")
    return found


def _addresses(given: str | Sequence[str], kind: str, example: str) -> list[str]:
    parts = [given] if isinstance(given, str) else list(given)
    addresses = [address.strip() for part in parts for address in part.replace(",", ";").split(";")]
    found = list(dict.fromkeys(address for address in addresses if address))
    for address in found:
        try:
            split_address(address)
        except ValueError as error:
            raise ClientError(f"{kind} {error}, for example {example}") from None
    return found
