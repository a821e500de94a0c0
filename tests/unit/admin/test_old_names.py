"""The flat names of 0.1 lead to the families, with a warning, until 0.3."""

from __future__ import annotations

import asyncio
import operator

import pytest

from contrailmq.admin.client import AdminClient
from contrailmq.admin.old_names import RENAMED
from contrailmq.testing.cluster import LocalCluster


@pytest.fixture
def admin() -> AdminClient:
    return AdminClient("127.0.0.1:9876")


@pytest.mark.parametrize("old", sorted(RENAMED))
def test_an_old_name_is_the_new_method(admin: AdminClient, old: str) -> None:
    new = operator.attrgetter(RENAMED[old])(admin)
    with pytest.warns(DeprecationWarning, match=f"AdminClient.{old} is now"):
        assert getattr(admin, old) == new


def test_families_are_called_as_the_methods_were() -> None:
    async def run() -> None:
        async with LocalCluster() as cluster, AdminClient(cluster.name_servers) as admin:
            with pytest.warns(DeprecationWarning, match="topics.names"):
                assert await admin.topics() == await admin.topics.names()  # type: ignore[operator]
            with pytest.warns(DeprecationWarning, match="brokers.members"):
                assert len(await admin.brokers()) == 1  # type: ignore[operator]
            await admin.topics.create("made-by-name", queues=3)
            address = next(iter((await admin.masters()).values()))
            assert (await admin.topics.config(address, "made-by-name")).write_queue_nums == 3
            await admin.groups.create("made-too")
            assert "made-too" in await admin.groups.names()

    asyncio.run(run())


def test_an_unknown_name_is_an_error(admin: AdminClient) -> None:
    with pytest.raises(AttributeError):
        admin.no_such_call  # type: ignore[attr-defined]  # noqa: B018
