"""Host names: which texts may be one, and the addresses they stand for at the moment.

Connections ask the resolver each time (see ``Network``).  What is here is for the few places that
need a number: the address in records, and the comparison with the address of a peer.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable
from typing import Final

RESOLVE_S: Final = 5.0
_LABELS: Final = re.compile(r"(?=.{1,253}\Z)(?!-)[\w-]{1,63}(\.[\w-]{1,63})*\.?", re.ASCII)

Resolve = Callable[[str], Awaitable[list[str]]]


def is_address(host: str) -> bool:
    """Whether a text is a numeric address, with or without the brackets of IPv6."""
    try:
        ipaddress.ip_address(host.partition("%")[0].strip("[]"))
    except ValueError:
        return False
    return True


def may_be_name(host: str) -> bool:
    """Whether a text has the form of a host name; numbers with dots have not."""
    last = host.rstrip(".").rpartition(".")[2]
    return _LABELS.fullmatch(host) is not None and not last.isdecimal()


async def resolve(host: str) -> list[str]:
    """The addresses a name has now, those of IPv4 first; raises OSError when it has none."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(RESOLVE_S):
            found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except TimeoutError:
        raise OSError(f"no answer of the resolver within {RESOLVE_S:g} s") from None
    found = sorted(found, key=lambda entry: entry[0] != socket.AF_INET)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
