"""Services and tasks have owners."""

from __future__ import annotations

import asyncio
import random

import pytest

from contrailmq.lifecycle import Tasks, running, uninterrupted
from contrailmq.testing.sim import simulate


def test_services_stop_in_reverse_order() -> None:
    events: list[str] = []

    async def service(name: str) -> None:
        events.append(f"{name} started")
        try:
            await asyncio.Event().wait()
        finally:
            events.append(f"{name} stopped")

    async def scenario(rng: random.Random) -> None:
        async with running(service("flush"), name="flush"):
            await asyncio.sleep(1)
            async with running(service("server"), name="server"):
                await asyncio.sleep(1)

    simulate(1, scenario)
    assert events == ["flush started", "server started", "server stopped", "flush stopped"]


def test_a_failing_service_ends_its_block() -> None:
    async def service() -> None:
        await asyncio.sleep(1)
        raise ValueError("broken")

    async def scenario(rng: random.Random) -> None:
        async with running(service(), name="broken"):
            await asyncio.sleep(1000)

    with pytest.raises(ExceptionGroup) as caught:
        simulate(1, scenario, limit_s=10)
    assert caught.group_contains(ValueError, match="broken")


@pytest.mark.parametrize("fails", [False, True])
def test_uninterrupted_work_ends_before_the_cancellation(fails: bool) -> None:
    async def scenario(rng: random.Random) -> None:
        work: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        async with asyncio.TaskGroup() as group:
            task = group.create_task(_settled(uninterrupted(work)))
            await asyncio.sleep(1)
            task.cancel()
            await asyncio.sleep(1)
            assert not task.done()
            if fails:
                work.set_exception(OSError("lost"))
            else:
                work.set_result(None)
        assert task.result() == ("OSError" if fails else "CancelledError")

    simulate(1, scenario)


async def _settled(work: object) -> str:
    try:
        await work  # type: ignore[misc]
    except BaseException as error:
        return type(error).__name__
    return "done"


def test_tasks_get_a_while_to_end_and_are_then_cancelled() -> None:
    ended: list[str] = []

    async def work(seconds: float) -> None:
        try:
            await asyncio.sleep(seconds)
            ended.append(f"{seconds} done")
        except asyncio.CancelledError:
            await asyncio.sleep(0.5)  # cleaning up takes time, and is waited for
            ended.append(f"{seconds} cancelled")
            raise

    async def scenario(rng: random.Random) -> None:
        tasks = Tasks()
        for seconds in (0.5, 3.0, 60.0):
            tasks.start(work(seconds))
        assert len(tasks) == 3
        await tasks.aclose(drain_s=1.0)
        assert len(tasks) == 0
        assert asyncio.get_running_loop().time() == pytest.approx(1.5)

    simulate(1, scenario)
    assert ended == ["0.5 done", "3.0 cancelled", "60.0 cancelled"]
