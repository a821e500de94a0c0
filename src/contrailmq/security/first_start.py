"""``contrail up --secure``: authority, certificate and administrator, made at the first start."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from contrailmq.clock import Clock
from contrailmq.security.certificates import issue, make_authority
from contrailmq.security.changes import put_account
from contrailmq.security.files import AccountFiles

ADMIN: Final = "contrail-admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Secured:
    """The keys of broker.conf that protect a cluster, and the new administrator's secret."""

    properties: dict[str, str]
    accounts: Path
    secret: str | None = field(default=None, repr=False)  # None: the account was there already

    def told(self, namesrv: str) -> str:
        """Return what clients need, for people, once; nothing at later starts."""
        if self.secret is None:
            return ""
        ca, name, secret = self.properties["tls.server.certPath"], ADMIN, self.secret
        ca = str(Path(ca).parent / "ca.pem")
        return f"""\
This is shown once. The administrator's account is {name}, its secret {secret}
  contrail: export CONTRAIL_TLS_CA={ca} CONTRAIL_SECRET_KEY={secret}
            contrail topic list -n {namesrv} --access-key {name}
  Python:   ClientSettings(tls=Tls(ca="{ca}"),
                credentials=Credentials(access_key="{name}", secret_key="{secret}"))
  Java:     -Dtls.enable=true -Dtls.test.mode.enable=false -Dtls.client.authServer=true
            -Dtls.client.trustCertPath={ca}
            new AclClientRPCHook(new SessionCredentials("{name}", "{secret}"))
  Go:       producer.WithTls(true), producer.WithCredentials(primitive.Credentials{{
                AccessKey: "{name}", SecretKey: "{secret}"}})
More accounts: contrail account add NAME --pub TOPIC --file {self.accounts}
"""


def new_secret() -> str:
    """Return a fresh secret of 128 bits."""
    return os.urandom(16).hex()


def secure(folder: Path, *, hosts: list[str], clock: Clock) -> Secured:
    """Make what is missing in a folder, and return the keys that use it."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not (folder / "ca.pem").exists():
        make_authority(folder, clock=clock)
    if not (folder / "server.pem").exists():
        issue(folder, hosts[0], hosts=hosts, clock=clock, file="server")
    files = AccountFiles(folder / "plain_acl.yml")
    secret = None
    if not files.main.exists():
        secret = new_secret()
        put_account(files, ADMIN, {"secretKey": secret, "admin": True}, now_ms=clock.now_ms())
    properties = {
        "aclEnable": "true",
        "aclFile": str(files.main),
        "tls.server.mode": "enforcing",
        "tls.enable": "true",
        "tls.server.certPath": str(folder / "server.pem"),
        "tls.server.keyPath": str(folder / "server.key"),
        "tls.server.need.client.auth": "optional",
        "tls.server.authClient": "true",
        "tls.server.trustCertPath": str(folder / "ca.pem"),
        "tls.client.trustCertPath": str(folder / "ca.pem"),
    }
    return Secured(properties=properties, accounts=files.main, secret=secret)
