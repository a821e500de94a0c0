"""What an address that others reach means without access control: three lines, and the remedy."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host in ("localhost", "localhost."):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def exposure(host: str, *, acl: bool, tls_only: bool) -> str | None:
    """Return what to tell whoever starts a server on an address; None when nothing is wrong."""
    if is_loopback(host) or (acl and tls_only):
        return None
    if acl:
        return (
            f"warning: {host} is reached by other machines, and requests travel in clear.\n"
            "  A signature protects against accidents; who listens in can repeat a request.\n"
            "  Remedy: contrail cert init, then tls.server.mode=enforcing in the configuration."
        )
    return (
        f"warning: {host} is reached by other machines, and every one of them may read,\n"
        "  write and delete all topics: there is no access control (aclEnable=false).\n"
        "  Remedy: contrail up --secure, or aclEnable=true and contrail account add; --insecure "
        "says that this is meant."
    )
