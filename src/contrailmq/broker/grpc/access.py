"""Signatures of gRPC calls, checked by the accounts of the cluster (MQv2-HMAC-SHA1).

The signed text is the date of the call alone, in whatever time zone the client takes for UTC; so no
age is checked.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from typing import Final

from contrailmq.grpc.backend import Need
from contrailmq.grpc.call import GrpcError, GrpcStatus
from contrailmq.security.account import Account
from contrailmq.security.accounts import Accounts
from contrailmq.security.guard import AccessDenied, Guard

ALGORITHM: Final = "MQv2-HMAC-SHA1"
_PARTS: Final = re.compile(r"(Credential|Signature)=([^,\s]*)")


class GrpcAccess:
    """Who may call what."""

    def __init__(self, accounts: Accounts, guard: Guard) -> None:
        self._accounts = accounts
        self._guard = guard

    def check(self, metadata: Mapping[str, str], peer: str, needs: Sequence[Need]) -> None:
        """Raise PERMISSION_DENIED unless the signer may do it."""
        try:
            account = self._account(metadata, peer)
            if account is None:
                return
            for need in needs:
                if need.topic:
                    self._guard.check_topic(
                        account, need.topic, is_write=need.is_write, host=_host(peer)
                    )
                if need.group:
                    self._guard.check_group(account, need.group, host=_host(peer))
        except AccessDenied as error:
            raise GrpcError(GrpcStatus.PERMISSION_DENIED, error.text) from None

    def _account(self, metadata: Mapping[str, str], peer: str) -> Account | None:
        """The account that signed; None for an address that may do everything."""
        table = self._accounts.table
        host = _host(peer)
        if table.white.matches(host):
            return None
        parts = dict(_PARTS.findall(metadata.get("authorization", "")))
        name = parts.get("Credential", "").partition("/")[0]
        if not name:
            raise AccessDenied("No accessKey is configured")
        account = table.accounts.get(name)
        if account is not None and account.is_enabled and account.home.matches(host):
            return None
        text = metadata.get("x-mq-date-time", "")
        given = parts.get("Signature", "").lower()
        secrets = account.secrets if account is not None else ("no account has this secret",)
        is_signed = [hmac.compare_digest(_signature(secret, text), given) for secret in secrets]
        if account is None:
            raise AccessDenied(f"No acl config for {name}")
        if not any(is_signed):
            raise AccessDenied(f"Check signature failed for accessKey={name}")
        if not account.is_enabled:
            raise AccessDenied(f"User:{name} is disabled.")
        return account


def _host(peer: str) -> str:
    return peer.rpartition(":")[0].strip("[]")


def _signature(secret: str, text: str) -> str:
    return hmac.new(secret.encode(), text.encode(), hashlib.sha1).hexdigest()
