"""Addresses: as records hold them, and as people write them.

A record has 4 or 16 bytes of IP, then the port as a 4-byte integer.
"""

from __future__ import annotations

import ipaddress
from typing import Final

from contrailmq.errors import LocalProtocolError

HOST_SIZE_V4: Final = 8
HOST_SIZE_V6: Final = 20


def host_bytes(address: str, port: int) -> bytes:
    """The 8 or 20 bytes of a numeric IP address and a port."""
    try:
        packed = ipaddress.ip_address(address.partition("%")[0].strip("[]")).packed
    except ValueError as error:
        raise LocalProtocolError(f"{address!r} is not an IP address") from error
    return packed + port.to_bytes(4, "big", signed=True)


def parse_host(text: str) -> bytes:
    """The bytes of ``ip:port``; the last colon separates."""
    address, _, port = text.rpartition(":")
    try:
        return host_bytes(address.strip("[]"), int(port))
    except ValueError as error:
        raise LocalProtocolError(f"{text!r} is not ip:port") from error


def host_address(host: bytes) -> tuple[str, int]:
    """IP (as Java writes it: no part of an IPv6 address is left out) and port of host bytes."""
    if len(host) not in (HOST_SIZE_V4, HOST_SIZE_V6):
        raise LocalProtocolError(f"host of {len(host)} bytes, must be 8 or 20")
    port = int.from_bytes(host[-4:], "big", signed=True)
    if len(host) == HOST_SIZE_V4:
        return f"{host[0]}.{host[1]}.{host[2]}.{host[3]}", port
    parts = (f"{host[i] << 8 | host[i + 1]:x}" for i in range(0, 16, 2))
    return ":".join(parts), port


def host_text(host: bytes) -> str:
    """``ip:port``, as RocketMQ's tools print it."""
    address, port = host_address(host)
    return f"{address}:{port}"


def split_address(address: str) -> tuple[str, int]:
    """``host:port`` as its parts; an IPv6 host may have brackets. Raises ValueError."""
    host, colon, port = address.strip().rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"address {address!r}: expected host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)
