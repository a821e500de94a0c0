"""A broker whose small files are damaged: what the store knows comes back, caches begin empty."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from contrailmq.errors import ConfigError
from contrailmq.testing.files import SimFiles
from testkit.broker_world import World, run, send
from testkit.special_world import everything

CONF = {"namesrvAddr": "", "storePathRootDir": "/s"}


@pytest.mark.parametrize("damage", ["damaged", "missing", "both missing"])
def test_topics_the_store_has_are_put_back_and_named(
    damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(world: World) -> None:
        files = SimFiles()
        async with world.broker(files=files, **CONF), world.client() as client:
            await send(client, "Old", b"old")
        async with world.broker(files=files, **CONF), world.client() as client:
            await send(client, "New", b"new")
            await asyncio.sleep(1)
        path = "/s/config/topics.json"
        if damage == "damaged":
            files.replace(path, b"{ half a table")
        else:
            files.remove(path)
        if damage == "both missing":
            files.remove(path + ".bak")
        async with world.broker(files=files, **CONF), world.client() as client:
            (record,) = await everything(client, "New")
            assert bytes(record.body) == b"new"
            assert "topic=New" in caplog.text
        caplog.clear()
        async with world.broker(files=files, **CONF), world.client() as client:
            assert len(await everything(client, "New")) == 1
            assert "put back" not in caplog.text

    run(1, tmp_path, scenario)


@pytest.mark.parametrize("name", ["consumerFilter.json", "timermetrics"])
def test_a_broken_cache_does_not_stop_a_start(name: str, tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        files = SimFiles()
        files.replace(f"/s/config/{name}", b"\xff no table")
        async with world.broker(files=files, **CONF):
            pass

    run(1, tmp_path, scenario)


def test_a_broken_table_of_topics_without_a_backup_does(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        files = SimFiles()
        files.replace("/s/config/topics.json", b"{ half a table")
        with pytest.raises(ConfigError, match="restore it"):
            async with world.broker(files=files, **CONF):
                pass

    run(1, tmp_path, scenario)
