"""Where a cluster is and who asks: addresses of name servers, and an account.

Apart from the other settings, because it is all that a short process (a task of Spark, say) needs
of them: nothing here loads an event loop.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from contrailmq.errors import ClientError
from contrailmq.protocol.hosts import split_address

NAME_SERVERS_VARIABLE: Final = "NAMESRV_ADDR"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """An account of the broker's access control list; requests are signed with it."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)


def name_server_list(given: str | Sequence[str] | None) -> list[str]:
    """Addresses as given, or else those of ``NAMESRV_ADDR``; ``;`` and ``,`` separate."""
    if given is None:
        given = os.environ.get(NAME_SERVERS_VARIABLE, "")
    parts = [given] if isinstance(given, str) else list(given)
    addresses = [address.strip() for part in parts for address in part.replace(",", ";").split(";")]
    found = list(dict.fromkeys(address for address in addresses if address))
    for address in found:
        try:
            split_address(address)
        except ValueError as error:
            raise ClientError(f"name server {error}, for example 127.0.0.1:9876") from None
    return found
