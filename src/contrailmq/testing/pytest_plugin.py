"""Fixtures for tests of programs that use RocketMQ: a real broker, thrown away after the test.

``contrail_broker`` is one broker with its name server, ``contrail_cluster`` two; both run in a
thread of their own, so tests may be plain or asynchronous.  A marker changes that::

    @pytest.mark.contrail(brokers=3, properties={"autoCreateTopicEnable": "false"})
    def test_orders(contrail_cluster):
        with Producer("orders", name_servers=contrail_cluster.name_servers) as producer: ...

Faults for the test's own use: ``refuse()``, ``delay(seconds)``, ``drop()``, ``stop_broker()`` and
``heal()``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:  # every run of pytest loads this module, few need a broker
    from contrailmq.testing.cluster import ClusterThread


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers", "contrail(brokers, properties): the cluster the fixtures start"
    )


@pytest.fixture
def contrail_broker(request: pytest.FixtureRequest) -> Iterator[ClusterThread]:
    """A name server and one broker."""
    yield from _cluster(request, brokers=1)


@pytest.fixture
def contrail_cluster(request: pytest.FixtureRequest) -> Iterator[ClusterThread]:
    """A name server and two brokers, or as many as the marker says."""
    yield from _cluster(request, brokers=2)


def _cluster(request: pytest.FixtureRequest, *, brokers: int) -> Iterator[ClusterThread]:
    from contrailmq.testing.cluster import ClusterThread

    marker = request.node.get_closest_marker("contrail")
    options: dict[str, Any] = {"brokers": brokers}
    if marker is not None:
        options.update(marker.kwargs)
    cluster = ClusterThread(**options)
    try:
        yield cluster
    finally:
        cluster.close()
