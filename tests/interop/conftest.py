"""Fixtures for tests against the real Java system: servers and clients that are shared by a run.

Every test in this directory has the marker ``interop``.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from xdist.scheduler import LoadScopeScheduling

from testkit.peer import (
    JavaBroker,
    JavaCall,
    JavaClient,
    JavaCluster,
    JavaNameServer,
    JavaServer,
    MqAdmin,
    Row,
)

HERE = Path(__file__).parent
WHOLE = "test_mqadmin_interop.py"  # both versions run at once in it
LONGEST = (
    WHOLE,
    "test_special_interop.py",
    "test_broker_interop.py",
    "test_client_interop.py",
    "test_namesrv_interop.py",
    "test_store_interop.py",
    "test_acl_interop.py",
    "test_timer_interop.py",
    "test_wild_interop.py",
    "test_harness.py",
    "test_tls_interop.py",
    "test_replication_interop.py",
    "test_kinds_interop.py",
)


class Begin(Protocol):
    """``java_start``: begin a command of the Java client."""

    def __call__(
        self, version: str, command: str, *, serialization: str = "JSON", **parameters: Any
    ) -> JavaCall: ...


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.interop)
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else 99)


class BySystem(LoadScopeScheduling):
    """Gives a worker of ``-n`` the tests of one file with one version of Java; the longest first.

    Servers and clients of Java are shared by the tests of a worker: so each is started once or
    twice, and both workers are busy to the end.
    """

    def _split_scope(self, nodeid: str) -> str:
        file, _, name = nodeid.partition("::")
        versions = re.findall(r"4\.9\.7|5\.2\.0|ours", name)
        return f"{file} {versions[-1] if versions and not file.endswith(WHOLE) else ''}"


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> BySystem:
    config.option.loadscopereorder = False
    return BySystem(config, log)


@pytest.fixture(scope="session")
def java_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., JavaCluster]]:
    """``java_cluster(version, serialization="JSON", **conf)``: one for all that ask the same."""
    clusters: dict[object, JavaCluster] = {}

    def cluster(version: str, serialization: str = "JSON", **conf: object) -> JavaCluster:
        settings = {name: str(value) for name, value in conf.items()}
        key = (version, serialization, tuple(sorted(settings.items())))
        if key not in clusters:
            home = tmp_path_factory.mktemp(f"cluster-{version}")
            clusters[key] = JavaCluster(version, home, serialization=serialization, conf=settings)
        return clusters[key]

    yield cluster
    for started in clusters.values():
        started.kill()


@pytest.fixture
def java_namesrv(tmp_path: Path) -> Iterator[Callable[..., JavaNameServer]]:
    """``java_namesrv(version, serialization=...)``: a name server of this test alone."""
    yield from _own(lambda version, number, **more: JavaNameServer(
        version, tmp_path / f"java-namesrv-{number}", **more
    ))  # fmt: skip


@pytest.fixture
def java_broker(tmp_path: Path) -> Iterator[Callable[..., JavaBroker]]:
    """``java_broker(version, namesrv=..., conf={...})``: a broker of this test alone.

    It registers with any name server, ours included; ``storePathRootDir`` in ``conf`` opens a
    store that is there already.
    """
    yield from _own(lambda version, number, **more: JavaBroker(
        version, tmp_path / f"java-broker-{number}", **more
    ))  # fmt: skip


@pytest.fixture(scope="session")
def java_start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Begin]:
    """``java_start(version, command, serialization="JSON", **parameters) -> JavaCall``.

    The commands are listed in ``Driver.java``; each class there names its parameters.
    """
    clients: dict[tuple[str, str], JavaClient] = {}

    def start(
        version: str, command: str, *, serialization: str = "JSON", **parameters: Any
    ) -> JavaCall:
        key = (version, serialization)
        if key not in clients:
            home = tmp_path_factory.mktemp(f"client-{version}-{serialization}")
            clients[key] = JavaClient(version, home, serialization=serialization)
        return clients[key].begin(command, **parameters)

    yield start
    for client in clients.values():
        client.close()


@pytest.fixture(scope="session")
def java_run(java_start: Begin) -> Callable[..., list[Row]]:
    """``java_run(version, command, serialization="JSON", **parameters)``: the rows, at its end."""

    def run(
        version: str, command: str, *, serialization: str = "JSON", **parameters: Any
    ) -> list[Row]:
        return java_start(version, command, serialization=serialization, **parameters).finish()

    return run


@pytest.fixture(scope="session")
def mqadmin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """``mqadmin(version, *args)``: what the original's admin tool prints."""
    tools: dict[str, MqAdmin] = {}

    def run(version: str, *args: str) -> str:
        if version not in tools:
            tools[version] = MqAdmin(version, tmp_path_factory.mktemp(f"mqadmin-{version}"))
        return tools[version].run(*args)

    yield run
    for tool in tools.values():
        tool.close()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic of this test alone, also within a shared cluster."""
    return _name(request, "T")


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    """A consumer group of this test alone."""
    return _name(request, "G")


_numbers = itertools.count(1)


def _name(request: pytest.FixtureRequest, prefix: str) -> str:
    words = "".join(c if c.isalnum() else "_" for c in request.node.name)
    return f"{prefix}_{words[:60]}_{next(_numbers)}"


def _own(make: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    servers: list[JavaServer] = []

    def start(version: str, **more: Any) -> JavaServer:
        server: JavaServer = make(version, len(servers), **more)
        servers.append(server)
        return server

    yield start
    for server in reversed(servers):
        server.kill()
