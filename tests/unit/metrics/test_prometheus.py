"""Boards and alert rules, with a real Prometheus that scrapes a real broker."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from contrailmq import (
    ConsumerSettings,
    Message,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionState,
)
from contrailmq.up import local_cluster

ROOT = Path(__file__).resolve().parents[3]
GRAFANA = ROOT / "deploy" / "grafana"
BOARDS = ("cluster", "topic", "group", "host")


def _tool(name: str) -> str:
    """The path of a program of Debian's package ``prometheus``; installed where we may."""
    if shutil.which(name) is None and os.geteuid() == 0 and shutil.which("apt-get"):
        command = "apt-get install -y -qq --no-install-recommends prometheus"
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(command.split(), env=quiet, capture_output=True, timeout=300)
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: apt-get install prometheus")
    return found


def _expressions() -> list[tuple[str, str]]:
    found = []
    for name in BOARDS:
        board = json.loads((GRAFANA / f"{name}.json").read_text())
        for panel in board["panels"]:
            found += [(f"{name}: {panel['title']}", one["expr"]) for one in panel["targets"]]
    return found


def test_the_boards_are_those_of_the_script() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "scripts" / "boards"), "--check"], text=True)
    assert done.returncode == 0


def test_rules_and_expressions_name_series_that_are_told() -> None:
    """What a board asks for and nobody tells would only be seen as an empty panel."""
    sources = "".join(
        path.read_text()
        for folder in ("broker/metrics", "metrics", "namesrv")
        for path in (ROOT / "src" / "contrailmq" / folder).glob("*.py")
    )
    texts = [expression for _, expression in _expressions()]
    texts.append((GRAFANA / "alerts.yml").read_text())
    asked = set(re.findall(r"\b(?:rocketmq|contrail|process)_\w+", "\n".join(texts)))
    assert len(asked) > 40
    suffix = r"(_bucket|_count|_sum)?$"
    units = r"(_bytes|_milliseconds|_seconds)?$"
    unknown = {
        name
        for name in asked
        if not any(
            f'"{one}"' in sources or f'"{one.removeprefix("contrail_namesrv_")}"' in sources
            for one in (
                name,
                re.sub(suffix, "", name),
                re.sub(units, "", re.sub(suffix, "", name)),
            )
        )
    }
    assert unknown == set()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_every_expression_of_the_boards_has_data(tmp_path: Path) -> None:
    promtool, prometheus = _tool("promtool"), _tool("prometheus")
    checked = subprocess.run(
        [promtool, "check", "rules", str(GRAFANA / "alerts.yml")], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    asyncio.run(_scrape(tmp_path, prometheus, promtool))


async def _scrape(tmp_path: Path, prometheus: str, promtool: str) -> None:
    given = {
        "metricsExporterType": "PROM",
        "metricsPromExporterPort": "0",
        "mappedFileSizeCommitLog": "16777216",
        "flushDiskType": "SYNC_FLUSH",
    }
    async with local_cluster(str(tmp_path), given) as cluster:
        address = cluster.broker.metrics_address
        page = await asyncio.to_thread(lambda: urllib.request.urlopen(address, timeout=20).read())
        lint = await asyncio.to_thread(
            partial(subprocess.run, [promtool, "check", "metrics"], input=page, capture_output=True)
        )
        assert lint.returncode in (0, 3), lint.stderr  # 3: matters of taste, RocketMQ's names
        assert b"error while linting" not in lint.stderr, lint.stderr
        with _running(prometheus, tmp_path, urllib.parse.urlsplit(address).netloc) as base:
            traffic = asyncio.ensure_future(_traffic(cluster.namesrv_address))
            try:
                await _all_have_data(base)
                loaded = await asyncio.to_thread(_get, f"{base}/api/v1/rules")
                rules = [r for g in loaded["data"]["groups"] for r in g["rules"]]
                assert len(rules) >= 15
                assert {rule["health"] for rule in rules} <= {"ok", "unknown"}
            finally:
                traffic.cancel()
                await asyncio.wait([traffic])


async def _all_have_data(base: str) -> None:
    left = dict(_expressions())
    deadline = time.monotonic() + 90
    while left:
        for title, expression in list(left.items()):
            if await asyncio.to_thread(_has_data, base, expression):
                del left[title]
        assert time.monotonic() < deadline, f"no data: {left}"
        await asyncio.sleep(0.5)


def _has_data(base: str, expression: str) -> bool:
    for variable, value in (
        ("$__rate_interval", "20s"),
        ("$cluster", ".*"),
        ("$broker", ".*"),
        ("$topic", ".*"),
        ("$group", ".*"),
    ):
        expression = expression.replace(variable, value)
    answer = _get(f"{base}/api/v1/query?" + urllib.parse.urlencode({"query": expression}))
    assert answer["status"] == "success", (expression, answer)
    return bool(answer["data"]["result"])


def _get(address: str) -> Any:
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return json.load(error)


@contextlib.contextmanager
def _running(prometheus: str, folder: Path, target: str) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = folder / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
        f"rule_files: ['{GRAFANA / 'alerts.yml'}']\n"
        f"scrape_configs: [{{job_name: contrail, static_configs: [{{targets: ['{target}']}}]}}]\n"
    )
    log = (folder / "prometheus.log").open("w")
    process = subprocess.Popen(
        [
            prometheus,
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stdout=log,
        stderr=log,
    )
    try:
        base = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{base}/-/ready", timeout=5).close()
                break
            assert process.poll() is None, (folder / "prometheus.log").read_text()
            assert time.monotonic() < deadline, "prometheus is not ready"
            time.sleep(0.2)
        yield base
    finally:
        process.terminate()
        process.wait(30)
        log.close()


async def _traffic(names: str) -> None:
    """Everything a panel shows: transactions, times, dead letters, clients of all kinds."""

    async def check(message: object) -> TransactionState:
        return TransactionState.COMMIT

    async def fail(message: object) -> None:
        raise ValueError("so that it becomes a dead letter")

    async with Producer("pg", name_servers=names, check=check) as producer:
        await producer.send(Message("t", body=b"first"))
        async with (
            PushConsumer("g", topics={"t": "*"}, name_servers=names, start_from="first"),
            PushConsumer(
                "dying", topics={"t": "*"}, name_servers=names, handler=fail, start_from="first",
                settings=ConsumerSettings(retries_max=0),
            ),
            SimpleConsumer("s", topics={"t": "*"}, name_servers=names) as simple,
        ):  # fmt: skip
            while True:
                await producer.send(Message("t", body=b"x" * 100))
                await producer.send(Message("t", body=b"later", delay_s=600))
                async with producer.transaction(Message("t", body=b"tx")):
                    pass
                with contextlib.suppress(KeyError):
                    async with producer.transaction(Message("t", body=b"tx")):
                        raise KeyError
                for message in await simple.receive(wait_s=0.1):
                    await simple.ack(message)
                await asyncio.sleep(0.2)
