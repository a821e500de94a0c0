"""The PROXY protocol, versions 1 and 2: whom a proxy speaks for.

It is believed only of addresses that are named (``proxyProtocolFrom``): anybody could write it.
"""

from __future__ import annotations

import ipaddress
import struct
from typing import Final, NamedTuple

SIGNATURE: Final = b"\r\n\r\n\x00\r\nQUIT\n"
TEXT_SIZE_MAX: Final = 107
BINARY_SIZE_MAX: Final = 16 + 2048


class ProxyLine(NamedTuple):
    """Where the line ends, and the peer it names; None for the proxy's own checks."""

    size: int
    source: tuple[str, int] | None


def parse_proxy_line(data: memoryview) -> ProxyLine | str | None:
    """The line at the beginning of a connection; None when more must come; a text is a fault."""
    head = bytes(data[: len(SIGNATURE)])
    if head == SIGNATURE[: len(head)]:
        return _binary(data) if len(data) >= 16 else None
    if not head.startswith(b"PROXY "[: len(head)]):
        return "neither a PROXY line nor a frame"
    text = bytes(data[:TEXT_SIZE_MAX])
    end = text.find(b"\r\n")
    if end < 0:
        return "a PROXY line without an end" if len(text) >= TEXT_SIZE_MAX else None
    words = text[:end].decode("ascii", "replace").split(" ")
    if len(words) >= 2 and words[1] == "UNKNOWN":
        return ProxyLine(end + 2, None)
    if len(words) != 6 or words[1] not in ("TCP4", "TCP6"):
        return "a PROXY line that is none"
    try:
        source = (str(ipaddress.ip_address(words[2])), int(words[4]))
    except ValueError:
        return "a PROXY line without an address"
    if not 0 <= source[1] <= 65535:
        return f"a PROXY line with the port {source[1]}"
    return ProxyLine(end + 2, source)


def _binary(data: memoryview) -> ProxyLine | str | None:
    version, family, size = struct.unpack_from(">BBH", data, 12)
    whole = 16 + size
    if version >> 4 != 2 or whole > BINARY_SIZE_MAX:
        return "a PROXY header that is none"
    if len(data) < whole:
        return None
    if version & 15 == 0:  # LOCAL: the proxy itself
        return ProxyLine(whole, None)
    if family >> 4 == 1 and size >= 12:
        port = struct.unpack_from(">H", data, 24)[0]
        return ProxyLine(whole, (str(ipaddress.IPv4Address(bytes(data[16:20]))), port))
    if family >> 4 == 2 and size >= 36:
        port = struct.unpack_from(">H", data, 48)[0]
        return ProxyLine(whole, (str(ipaddress.IPv6Address(bytes(data[16:32]))), port))
    return ProxyLine(whole, None)
