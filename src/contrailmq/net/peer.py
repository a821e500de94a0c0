"""Peers: their addresses as text and as the bytes a message record stores, and their sockets."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from typing import Any


def host_text(name: Any) -> str:
    """A socket name as ``ip:port``; an IPv4 peer of a dual-stack socket is shown as IPv4."""
    found = _split(name)
    return f"{found[0]}:{found[1]}" if found is not None else str(name or "?")


def host_bytes(name: Any) -> bytes:
    """A socket name as a record has it: 4 or 16 address bytes and the port as int32."""
    found = _split(name)
    if found is None:
        return bytes(8)
    return found[0].packed + found[1].to_bytes(4, "big")


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Let the kernel look after a peer that is silent; simulated connections have no socket."""
    sock = transport.get_extra_info("socket")
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def plain_socket(transport: asyncio.BaseTransport) -> int:
    """The descriptor of a socket that takes the bytes as they are; -1 under TLS, or without one."""
    sock = transport.get_extra_info("socket")
    if sock is None or transport.get_extra_info("sslcontext") is not None:
        return -1
    return int(sock.fileno())


def _split(name: Any) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int] | None:
    if not isinstance(name, tuple) or len(name) < 2:
        return None
    address = ipaddress.ip_address(str(name[0]).partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped, int(name[1])
    return address, int(name[1])
