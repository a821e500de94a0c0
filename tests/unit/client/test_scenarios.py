"""The client against our own broker: every scenario, with JSON and with binary headers."""

from __future__ import annotations

import asyncio

import pytest

from contrailmq.protocol.command import Serialization
from contrailmq.testing.cluster import LocalCluster
from testkit.client_scenarios import SCENARIOS, Place, Scenario

PROPERTIES = {"transactionTimeOut": "1000", "transactionCheckInterval": "1000"}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
@pytest.mark.parametrize("serialization", list(Serialization), ids=lambda kind: kind.name)
def test_against_our_broker(scenario: Scenario, serialization: Serialization) -> None:
    async def run() -> None:
        async with LocalCluster(properties=PROPERTIES) as cluster:
            await scenario(Place(cluster.name_servers, "s", serialization))

    asyncio.run(run())
