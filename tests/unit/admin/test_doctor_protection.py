"""The doctor on protection: open addresses, and certificates that end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from contrailmq.admin.doctor.findings import Chart, Severity
from contrailmq.admin.doctor.protection import DAY_MS, note_certificate, note_exposure
from contrailmq.clock import SystemClock
from contrailmq.net.dispatch import Dispatcher
from contrailmq.net.server import Server
from contrailmq.net.settings import ServerSettings
from contrailmq.net.tls import ServerTls
from contrailmq.net.tls_settings import TlsSettings
from contrailmq.security.certificates import describe
from testkit.authority import make_certificates


@pytest.mark.parametrize(
    ("config", "severity", "word"),
    [
        ({"bindAddress": "127.0.0.1"}, Severity.OK, "acl=False"),
        ({"bindAddress": "0.0.0.0"}, Severity.WARNING, "read and delete all"),
        ({"bindAddress": "0.0.0.0", "aclEnable": "true"}, Severity.WARNING, "in clear"),
        (
            {"bindAddress": "::", "aclEnable": "true", "tls.server.mode": "enforcing"},
            Severity.OK,
            "acl=True",
        ),
    ],
)
def test_open_addresses(config: dict[str, str], severity: Severity, word: str) -> None:
    chart = Chart()
    note_exposure(chart, "10.0.0.1:10911", config)
    (finding,) = chart.findings
    assert finding.severity is severity
    assert word in finding.text
    assert bool(finding.fix) == (severity is not Severity.OK)


def test_certificates_that_end(tmp_path: Path) -> None:
    certs = make_certificates(tmp_path)
    until_ms = describe(certs / "server.pem")["until_ms"]
    tls = TlsSettings(
        mode="enforcing",
        server_cert=str(certs / "server.pem"),
        server_key=str(certs / "server.key"),
    )

    async def main() -> list[Severity]:
        server = Server(
            Dispatcher({}), ServerSettings(drain_ms=10), clock=SystemClock(), tls=ServerTls.of(tls)
        )
        await server.start("127.0.0.1", 0)
        try:
            chart = Chart()
            for days_before in (100, 5, -1):
                now_ms = until_ms - days_before * DAY_MS
                await note_certificate(chart, f"127.0.0.1:{server.port}", now_ms=now_ms)
            await note_certificate(chart, "127.0.0.1:1", now_ms=0)  # nobody is there: no finding
            return [finding.severity for finding in chart.findings]
        finally:
            await server.aclose()

    assert asyncio.run(main()) == [Severity.OK, Severity.WARNING, Severity.PROBLEM]
