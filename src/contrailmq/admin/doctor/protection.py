"""The doctor's look at protection: who reaches a broker, and how long its certificate lasts."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Mapping
from typing import Final

from contrailmq.admin.client import AdminClient
from contrailmq.admin.doctor.findings import Chart, Severity
from contrailmq.errors import ContrailError
from contrailmq.protocol.hosts import split_address
from contrailmq.security.certificates import ends_ms
from contrailmq.security.exposure import exposure

HANDSHAKE_S: Final = 3.0
DAY_MS: Final = 24 * 3600 * 1000
SOON_DAYS: Final = 21


async def examine_protection(admin: AdminClient, chart: Chart, masters: Mapping[str, str]) -> None:
    """Every broker that answers: is it open to others, does its certificate end soon."""
    for address in masters.values():
        try:
            config = await admin.brokers.config(address)
        except ContrailError:
            continue  # the look at permissions tells why
        note_exposure(chart, address, config)
        mode = config.get("tls.server.mode", "")
        if config.get("tls.server.certPath") and mode in ("permissive", "enforcing"):
            await note_certificate(chart, address, now_ms=admin.world.clock.now_ms())


def note_exposure(chart: Chart, address: str, config: Mapping[str, str]) -> None:
    """Say whom a broker's address and settings leave it open to."""
    host = config.get("bindAddress", "")
    is_checked = config.get("aclEnable") == "true"
    is_tls_only = config.get("tls.server.mode") == "enforcing"
    warning = exposure(host, acl=is_checked, tls_only=is_tls_only) if host else None
    if warning is None:
        chart.ok("protection", f"{address}: bound to {host or '?'}, acl={is_checked}")
        return
    what = "requests travel in clear" if is_checked else "every machine may read and delete all"
    chart.add(
        Severity.WARNING, "protection", f"{address} is bound to {host}: {what}",
        cause="tls.server.mode is not enforcing" if is_checked else "aclEnable is false",
        fix="contrail cert init, then tls.server.mode=enforcing in broker.conf"
        if is_checked
        else "contrail account add NAME --admin, then aclEnable=true in broker.conf  (or "
        "contrail up --secure)",
    )  # fmt: skip


async def note_certificate(chart: Chart, address: str, *, now_ms: int) -> None:
    """Say how long the certificate that a server shows lasts."""
    shown = await _shown(address)
    if shown is None:
        return
    left = (ends_ms(shown) - now_ms) // DAY_MS
    if left >= SOON_DAYS:
        chart.ok("certificate", f"{address}: ends in {left} days")
        return
    chart.add(
        Severity.PROBLEM if left < 0 else Severity.WARNING, "certificate",
        f"the certificate of {address} "
        + (f"ended {-left} days ago" if left < 0 else f"ends in {left} days"),
        cause="nothing has replaced it; clients that check certificates turn away then",
        fix="contrail cert issue NAME --host HOST into the files of tls.server.certPath and "
        "tls.server.keyPath; the broker takes them within a second",
    )  # fmt: skip


async def _shown(address: str) -> bytes | None:
    """The certificate a server shows, whoever issued it; None if it shows none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # it is looked at, nothing is told to it
    context.verify_mode = ssl.CERT_NONE
    host, port = split_address(address)
    with contextlib.suppress(OSError, TimeoutError, ssl.SSLError):
        async with asyncio.timeout(HANDSHAKE_S):
            _, writer = await asyncio.open_connection(host, port, ssl=context)
            session = writer.get_extra_info("ssl_object")
            writer.transport.abort()
            return bytes(session.getpeercert(binary_form=True) or b"") or None
    return None
