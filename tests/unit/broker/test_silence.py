"""What an operator must hear: keys without effect, levels that are gone, disks that fill up."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from contrailmq.broker.config.file import read_conf
from contrailmq.broker.services.offset_moved import OffsetMovedEvents
from contrailmq.clock import SystemClock
from contrailmq.errors import ConfigError
from contrailmq.testing.files import SimFiles
from testkit.broker_world import World, run
from testkit.special_world import delayed_send


@pytest.mark.parametrize("key", ["authenticationEnabled", "enableDLegerCommitLog"])
def test_a_key_that_promises_safety_and_has_no_effect_stops_the_start(key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        read_conf({key: "true"})
    read_conf({key: "false"})


def test_other_keys_without_effect_are_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        read_conf({"sendThreadPoolQueueCapacity": "5"})
    assert "without effect here: keys=sendThreadPoolQueueCapacity" in caplog.text


@pytest.mark.parametrize("text", ["1s 99999999999999999999d", "1s 3651d"])
def test_a_delay_of_ages_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="3650d"):
        read_conf({"messageDelayLevel": text})


def test_messages_of_a_removed_level_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    conf = {"namesrvAddr": "", "storePathRootDir": "/s"}

    async def scenario(world: World) -> None:
        files = SimFiles()
        async with world.broker(files=files, **conf), world.client() as client:
            await delayed_send(client, b"late", 5)
        async with world.broker(files=files, messageDelayLevel="1s 5s", **conf):
            await asyncio.sleep(1)
        assert "level=5 messages=1" in caplog.text

    run(1, tmp_path, scenario)


def test_pulls_out_of_range_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    class Nothing:
        is_master = True

        def find(self, topic: str) -> None:
            return None

    events = OffsetMovedEvents(Nothing(), Nothing(), Nothing(), clock=SystemClock())  # type: ignore[arg-type]
    for number in range(1000):
        events(f"g{number}", "T", 0, requested=number, moved_to=0)
    assert len(caplog.records) == 1
