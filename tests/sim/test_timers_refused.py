"""Timer messages are not served yet: they are refused, never delivered at once in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from contrailmq.protocol.codes import ResponseCode
from testkit.broker_world import World, pull, run, send


@pytest.mark.parametrize("name", ["TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"])
def test_a_timer_message_is_refused_with_its_reason(name: str, tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.client() as client, world.broker(namesrvAddr=""):
            answer = await send(client, "T", b"later", properties=f"{name}\x0130\x02")
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert f"{name} = 30" in (answer.remark or "")
            assert (await pull(client, "T", 0)).code == ResponseCode.PULL_NOT_FOUND
            level = await send(client, "T", b"level", properties=f"{name}\x0130\x02DELAY\x011\x02")
            assert level.code == 0

    run(1, tmp_path, scenario)
