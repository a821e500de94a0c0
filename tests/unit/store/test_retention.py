"""What is deleted, when, and why messages are refused."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from contrailmq.errors import ConfigError
from contrailmq.store.files import DiskUsage
from contrailmq.store.retention import Disk, Retention, Situation, decide
from contrailmq.store.settings import StoreSettings
from contrailmq.testing.sim import SimClock, simulate

HOUR_MS = 3_600_000
NOW_MS = 1_700_000_000_000
SETTINGS = StoreSettings()
OLD = NOW_MS - 73 * HOUR_MS
NEW = NOW_MS - 71 * HOUR_MS


def _disk(percent: float, path: str = "/data/commitlog") -> Disk:
    used = int(percent * 10_000_000)
    return Disk(path, DiskUsage(total=1_000_000_000, used=used, free=1_000_000_000 - used))


def _situation(
    *,
    percent: float = 50,
    written_ms: Sequence[int] = (OLD, OLD, NEW, NEW),
    hour: int = 12,
    asked: bool = False,
    was_full: bool = False,
    disks: Sequence[Disk] | None = None,
    queue_percent: float = 10,
) -> Situation:
    return Situation(
        now_ms=NOW_MS,
        hour=hour,
        log_disks=disks or [_disk(percent)],
        queue_disk=_disk(queue_percent, "/data/consumequeue"),
        written_ms=written_ms,
        is_asked_for=asked,
        was_full=was_full,
    )


def test_nothing_goes_outside_the_hour_of_deletion() -> None:
    assert decide(SETTINGS, _situation()).delete == 0


@pytest.mark.parametrize(
    "reason", [{"hour": 4}, {"percent": 76}, {"asked": True}, {"queue_percent": 80}]
)
def test_the_old_go_for_a_reason(reason: dict[str, object]) -> None:
    decision = decide(SETTINGS, _situation(**reason))  # type: ignore[arg-type]
    assert decision.delete == 2
    assert decision.reason


def test_above_85_percent_age_does_not_matter_but_the_last_stays() -> None:
    assert decide(SETTINGS, _situation(percent=86)).delete == 3
    assert decide(SETTINGS, _situation(percent=86, written_ms=[OLD])).delete == 0
    unforced = StoreSettings(clean_forcibly=False)
    assert decide(unforced, _situation(percent=86)).delete == 2


def test_only_some_at_a_time_and_in_order() -> None:
    assert decide(SETTINGS, _situation(hour=4, written_ms=[OLD] * 30)).delete == 10
    assert decide(SETTINGS, _situation(hour=4, written_ms=[OLD, NEW, OLD, OLD])).delete == 1


def test_a_full_disk_is_named_with_its_numbers() -> None:
    refusal = decide(SETTINGS, _situation(percent=91.5)).refusal
    assert refusal is not None
    for part in ("/data/commitlog", "91.5 %", "free", "90 %"):
        assert part in refusal
    assert decide(SETTINGS, _situation(percent=90)).refusal is None


def test_service_returns_when_there_is_room_again_not_at_the_border() -> None:
    assert decide(SETTINGS, _situation(percent=89, was_full=True)).refusal is not None
    assert decide(SETTINGS, _situation(percent=85, was_full=True)).refusal is None


def test_of_several_log_disks_all_must_be_full() -> None:
    disks = [_disk(95, "/a"), _disk(40, "/b")]
    assert decide(SETTINGS, _situation(disks=disks)).refusal is None
    disks = [_disk(95, "/a"), _disk(92, "/b")]
    assert "/b" in str(decide(SETTINGS, _situation(disks=disks)).refusal)


def test_the_queues_disk_counts_too() -> None:
    assert "/data/consumequeue" in str(decide(SETTINGS, _situation(queue_percent=93)).refusal)


def test_hours() -> None:
    assert StoreSettings(delete_hours="04").delete_at_hours() == {4}
    assert StoreSettings(delete_hours="04;16; 23").delete_at_hours() == {4, 16, 23}
    for text in ("four", "24", "-1", "", ";", "04:30"):
        with pytest.raises(ConfigError, match="deleteWhen"):
            StoreSettings(delete_hours=text)


@dataclass
class _Shelf:
    """Segments as names, a disk as a number."""

    percent: float = 50
    segments: list[str] = field(default_factory=lambda: [f"s{n}" for n in range(6)])
    stuck: set[str] = field(default_factory=set)
    removed: list[str] = field(default_factory=list)
    refusal: str | None = None
    age_ms: int = OLD

    def disks(self) -> tuple[Sequence[Disk], Disk]:
        return [_disk(self.percent)], _disk(5, "/data/consumequeue")

    def written_ms(self) -> list[int]:
        return [self.age_ms] * len(self.segments)

    def forget_oldest(self) -> str:
        return self.segments.pop(0)

    def remove(self, path: str) -> None:
        if path in self.stuck:
            raise OSError(16, "Device or resource busy", path)
        self.removed.append(path)

    def trim(self) -> list[str]:
        return []

    def refuse(self, reason: str | None) -> None:
        self.refusal = reason


def test_rounds_delete_refuse_and_recover() -> None:
    async def scenario(rng: random.Random) -> None:
        shelf = _Shelf(percent=95)
        retention = Retention(shelf, settings=lambda: SETTINGS, clock=SimClock())
        task = asyncio.ensure_future(retention.run())
        await asyncio.sleep(0)
        assert shelf.refusal is not None
        await asyncio.sleep(15)
        assert shelf.removed == ["s0", "s1", "s2", "s3", "s4"]
        shelf.percent = 60
        await asyncio.sleep(10)
        assert shelf.refusal is None
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    simulate(1, scenario)


def test_a_file_that_cannot_be_removed_is_tried_again() -> None:
    async def scenario(rng: random.Random) -> None:
        shelf = _Shelf(stuck={"s0"})
        clock = SimClock()
        retention = Retention(shelf, settings=lambda: SETTINGS, clock=clock)
        retention.ask()
        assert await retention.round() == 5
        assert retention.hung == ["s0"]
        assert shelf.removed == ["s1", "s2", "s3", "s4"]
        shelf.stuck.clear()
        await retention.round()
        assert retention.hung == ["s0"]  # not yet
        await asyncio.sleep(SETTINGS.redelete_hung_ms / 1000 + 1)
        await retention.round()
        assert retention.hung == []
        assert shelf.removed[-1] == "s0"

    simulate(1, scenario)
