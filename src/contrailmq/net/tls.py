"""TLS contexts of servers and clients, from the original's keys, and how they follow their files.

Versions are 1.2 and 1.3; nothing is renegotiated.  A server's context is made of all its files or
not at all: files that cannot be used keep the one in force.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from contrailmq.errors import ConfigError
from contrailmq.net.tls_settings import TlsSettings

log = logging.getLogger(__name__)

LOOK_S: Final = 0.5


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """The context of a server; raises ConfigError that names key and file."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    if settings.test_mode:
        from contrailmq.net.self_signed import load_self_signed

        load_self_signed(context)
        return context
    if not settings.server_cert or not settings.server_key:
        raise ConfigError(
            f"tls.server.mode = {settings.server_mode}: needs tls.server.certPath and "
            "tls.server.keyPath; contrail cert init makes both"
        )
    _load_chain(context, "server", settings)
    if settings.client_auth == "none":
        return context
    if not settings.auth_client and not settings.server_trust:
        raise ConfigError(
            f"tls.server.need.client.auth = {settings.client_auth}: needs "
            "tls.server.trustCertPath, the authorities of clients; a certificate is never "
            "taken unchecked here"
        )
    is_required = settings.client_auth == "require"
    context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
    _load_trust(context, settings.server_trust, "tls.server.trustCertPath")
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """The context of connections a server makes itself; raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if settings.test_mode or not (settings.auth_server or settings.client_trust):
        log.warning("certificates of other servers are not checked (tls.client.authServer)")
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        context.check_hostname = settings.verify_host
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # a server's own may be named
        _load_trust(context, settings.client_trust, "tls.client.trustCertPath")
    if settings.client_cert and not settings.test_mode:
        _load_chain(context, "client", settings)
    return context


def _load_chain(context: ssl.SSLContext, side: str, settings: TlsSettings) -> None:
    cert, file = getattr(settings, f"{side}_cert"), getattr(settings, f"{side}_key")
    password = getattr(settings, f"{side}_key_password")
    try:
        context.load_cert_chain(cert, file or None, password=lambda: password)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"tls.{side}.certPath = {cert}, tls.{side}.keyPath = {file}: {_reason(error)}"
        ) from None


def _load_trust(context: ssl.SSLContext, path: str, name: str) -> None:
    if not path:
        context.load_default_certs()
        return
    try:
        context.load_verify_locations(path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{name} = {path}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"{error.reason or 'no PEM, or the password is wrong'}"
    return getattr(error, "strerror", None) or type(error).__name__


@dataclass(slots=True)
class ServerTls:
    """The context in force, and the files it was made of."""

    settings: TlsSettings
    context: ssl.SSLContext
    alpn: tuple[str, ...] = ()  # the protocols a peer may ask for; none are named without
    _stamp: object = None

    def __post_init__(self) -> None:
        self._name_protocols()

    @classmethod
    def of(cls, settings: TlsSettings, *, alpn: tuple[str, ...] = ()) -> ServerTls | None:
        """None when TLS is not served; raises ConfigError."""
        if settings.server_mode == "disabled":
            return None
        has_any = bool(settings.server_cert) or settings.test_mode
        if settings.server_mode == "permissive" and not has_any:
            log.warning("tls.server.mode = permissive without a certificate: plain only")
            return None
        found = cls(settings, server_context(settings), alpn)
        found._stamp = found._files()
        return found

    @property
    def is_enforcing(self) -> bool:
        """Whether a peer must speak TLS."""
        return self.settings.server_mode == "enforcing"

    async def run(self) -> None:
        """Follow the files until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.look()

    def look(self, *, always: bool = False) -> None:
        """Make the context anew if a file has changed; one that cannot be used changes nothing."""
        stamp = self._files()
        if stamp == self._stamp and not always:
            return
        self._stamp = stamp
        try:
            self.context = server_context(self.settings)
            self._name_protocols()
        except ConfigError as error:
            log.warning("the certificate stays as it was: %s", error)
            return
        log.info("certificate read again: path=%s", self.settings.server_cert)

    def _name_protocols(self) -> None:
        if self.alpn:
            self.context.set_alpn_protocols(list(self.alpn))

    def _files(self) -> object:
        settings = self.settings
        found: list[Any] = []
        for path in (settings.server_cert, settings.server_key, settings.server_trust):
            try:
                stat = Path(path).stat() if path else None
            except OSError:
                stat = None
            found.append(stat and (stat.st_mtime_ns, stat.st_size, stat.st_ino))
        return tuple(found)
