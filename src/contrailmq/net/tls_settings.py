"""The ``tls.*`` keys of the original, of broker.conf, namesrv.conf or ``tls.config.file``.

The file wins over the configuration file, as it wins over the properties of a virtual machine
there; it does not hold the mode and whether clients speak TLS.  Unlike there, a file that is named
and missing is an error, and a certificate nobody checks is made only when ``tls.test.mode.enable``
asks for it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from contrailmq.errors import ConfigError
from contrailmq.settings import key, keys_of, parse_properties, read

MODES: Final = ("disabled", "permissive", "enforcing")
CLIENT_AUTH: Final = ("none", "optional", "require")
_PATHS: Final = (
    "server_key",
    "server_cert",
    "server_trust",
    "client_key",
    "client_cert",
    "client_trust",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """What a server and its own connections do about TLS (TlsSystemConfig)."""

    mode: str = key(
        "tls.server.mode",
        "",
        doc=(
            "What the server's ports take: `disabled` plain only, `permissive` TLS and plain, "
            "`enforcing` TLS only. Empty: permissive if a certificate is given, else disabled."
        ),
    )
    enable: bool = key(
        "tls.enable",
        False,
        doc=(
            "Whether the connections this server makes itself, to name servers and other brokers, "
            "speak TLS."
        ),
    )
    test_mode: bool = key(
        "tls.test.mode.enable",
        False,
        doc=(
            "Whether the server makes a certificate of its own that proves nothing, and checks "
            "none. For tests. The original's default is true."
        ),
    )
    config_file: str = key(
        "tls.config.file",
        "",
        doc=(
            "A properties file with the `tls.*` keys, relative to the configuration file. Its "
            "keys win, except mode and `tls.enable`."
        ),
    )
    server_key: str = key(
        "tls.server.keyPath", "", doc="The server's private key: PEM, PKCS#8, encrypted or not."
    )
    server_key_password: str = key(
        "tls.server.keyPassword", "", secret=True, doc="The password of the key. It is never shown."
    )
    server_cert: str = key(
        "tls.server.certPath",
        "",
        doc="The server's certificate and its chain: PEM. The file is read again when it changes.",
    )
    need_client_auth: str = key(
        "tls.server.need.client.auth",
        "none",
        doc="Whether clients show a certificate: `none`, `optional` or `require`.",
    )
    auth_client: bool = key(
        "tls.server.authClient",
        False,
        doc=(
            "Whether certificates of clients are checked. They always are here when "
            "`tls.server.trustCertPath` is given."
        ),
    )
    server_trust: str = key(
        "tls.server.trustCertPath",
        "",
        doc=(
            "The authorities that certificates of clients come from: PEM. Empty: those of the "
            "system."
        ),
    )
    client_key: str = key(
        "tls.client.keyPath", "", doc="The private key of connections this server makes itself."
    )
    client_key_password: str = key(
        "tls.client.keyPassword",
        "",
        secret=True,
        doc="The password of that key. It is never shown.",
    )
    client_cert: str = key(
        "tls.client.certPath", "", doc="The certificate of connections this server makes itself."
    )
    auth_server: bool = key(
        "tls.client.authServer",
        False,
        doc=(
            "Whether certificates of other servers are checked. They always are here when "
            "`tls.client.trustCertPath` is given."
        ),
    )
    client_trust: str = key(
        "tls.client.trustCertPath",
        "",
        doc=(
            "The authorities that certificates of other servers come from. Empty: those of the "
            "system."
        ),
    )
    verify_host: bool = key(
        "tls.client.verifyHost",
        True,
        doc=(
            "Whether the certificate of another server must name its host. This key is ours; the "
            "original never checks it."
        ),
    )

    @property
    def server_mode(self) -> str:
        """The mode in force; without one given: permissive with a certificate, else disabled."""
        text = self.mode.strip().lower()
        if not text:
            return "permissive" if self.server_cert or self.test_mode else "disabled"
        return text if text in MODES else "permissive"

    @property
    def client_auth(self) -> str:
        """Whether clients show certificates; an unknown word is none."""
        text = self.need_client_auth.strip().lower()
        return text if text in CLIENT_AUTH else "none"


def own_calls(settings: TlsSettings) -> TlsSettings:
    """The same for a broker whose name server takes TLS only: it speaks TLS to it.

    What is not given for its own connections is taken from the server's: its certificate is shown,
    and is all that is trusted.
    """
    if settings.enable or settings.server_mode != "enforcing":
        return settings
    given = bool(settings.client_cert)
    return dataclasses.replace(
        settings,
        enable=True,
        client_trust=settings.client_trust or settings.server_cert,
        client_cert=settings.client_cert if given else settings.server_cert,
        client_key=settings.client_key if given else settings.server_key,
        client_key_password=settings.client_key_password if given else settings.server_key_password,
    )


def read_tls(properties: Mapping[str, str], *, config_path: str | None = None) -> TlsSettings:
    """The settings of a configuration file, and of the file it names; raises ConfigError."""
    given = read(TlsSettings, properties)
    folder = Path(config_path).absolute().parent if config_path else Path.cwd()
    found = given
    if given.config_file:
        path = folder / given.config_file
        try:
            lines = parse_properties(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"tls.config.file = {given.config_file!r}: cannot be read: {type(error).__name__}"
            ) from None
        allowed = keys_of(TlsSettings) - {"tls.server.mode", "tls.enable", "tls.config.file"}
        used = {name: text for name, text in lines.items() if name in allowed}
        found = read(TlsSettings, {**properties, **used})
    paths: dict[str, Any] = {
        name: str(folder / getattr(found, name)) for name in _PATHS if getattr(found, name)
    }
    return dataclasses.replace(found, **paths)
