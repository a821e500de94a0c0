"""``contrail up`` and its console: open by default, off where ports are free ones, port rules."""

from __future__ import annotations

import argparse
import asyncio
import socket
from pathlib import Path

import pytest

from contrailmq import up_console
from contrailmq.errors import ConfigError
from contrailmq.net.tls_settings import TlsSettings
from contrailmq.up import local_cluster


async def _line(folder: Path, **given: object) -> tuple[str, bytes]:
    """What is said of the console, and the first bytes of its first page."""
    options = argparse.Namespace(
        **{"console_port": None, "no_console": False, "namesrv_port": 9876, **given}
    )
    async with local_cluster(str(folder), {"mappedFileSizeCommitLog": str(1 << 20)}) as cluster:
        told = f"name server {cluster.namesrv_address}, broker"
        async with up_console.console_beside(options, told, tls=TlsSettings(), acl=False) as line:
            if not line:
                return "", b""
            host, _, port = line.strip().rpartition("//")[2].partition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"GET / HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
            page = await reader.read()
            writer.close()
            return line, page


def test_it_is_opened_and_said(tmp_path: Path) -> None:
    line, page = asyncio.run(_line(tmp_path, console_port=0))
    assert line.startswith("console: http://127.0.0.1:")
    assert page.startswith(b"HTTP/1.1 200") and b"ContrailMQ" in page


def test_it_is_off_where_nobody_asks_for_it(tmp_path: Path) -> None:
    assert asyncio.run(_line(tmp_path, namesrv_port=0)) == ("", b"")
    assert asyncio.run(_line(tmp_path, no_console=True, console_port=0)) == ("", b"")


def test_a_port_that_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(up_console, "DEFAULT_PORT", port)
        assert asyncio.run(_line(tmp_path)) == ("", b"")
        assert caplog.text.count("no console") == 1 and "--console-port" in caplog.text
        with pytest.raises(ConfigError, match="cannot be used"):
            asyncio.run(_line(tmp_path, console_port=port))
