"""How long the log is kept, and what happens when its disk fills.

Every ``cleanResourceInterval`` one *round*: look at the disks and the segments, decide, act.
``decide`` is a pure function, and the rules are in it:

* Old segments may go when the hour is one of ``deleteWhen``, when a disk is fuller than
  ``diskMaxUsedSpaceRatio`` (75 %), or when somebody asked for it.  Then every segment that was not
  written for ``fileReservedTime`` hours goes, oldest first, some at a time, never the last.
* Above 85 % (``diskSpaceCleanForciblyRatio``) age does not matter any more.
* Above 90 % (``diskSpaceWarningLevelRatio``) the store takes no messages.  It takes them again when
  the disk is no more than 85 % full, so that it does not go on and off at one border.

A log on several disks is full when all of them are; the queues' disk counts by itself.

Deleting forgets a segment first and removes its file afterwards, in a thread: a reader that is in
the middle of it keeps its view, the room comes back when the last one is done.  A file that cannot
be removed is tried again every ``redeleteHangedFileInterval``.  Queues and index are trimmed to
the log's new beginning right after.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from contrailmq.clock import Clock
from contrailmq.lifecycle import raise_cancellation, uninterrupted
from contrailmq.store.files import DiskUsage
from contrailmq.store.settings import StoreSettings

log = logging.getLogger(__name__)

FIRST_ROUND_MS: Final = 60_000
MANUAL_ROUNDS: Final = 20  # CleanCommitLogService.MAX_MANUAL_DELETE_FILE_TIMES
_HOUR_MS: Final = 3_600_000
_PERCENT_MIN, _PERCENT_MAX = 10, 95  # MessageStoreConfig.getDiskMaxUsedSpaceRatio


class Disk(NamedTuple):
    """A path of the store, and how full its file system is."""

    path: str
    usage: DiskUsage

    @property
    def percent(self) -> float:
        """How full, in percent; negative when it cannot be told."""
        return self.usage.ratio * 100

    def __str__(self) -> str:
        return (
            f"the disk of {self.path} is {self.percent:.1f} % full: "
            f"{_size(self.usage.used)} used, {_size(self.usage.free)} free"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Everything a decision depends on, besides the settings.

    ``written_ms`` is when each segment was last written, oldest segment first, the last one too.
    """

    now_ms: int
    hour: int
    log_disks: Sequence[Disk]
    queue_disk: Disk
    written_ms: Sequence[int]
    is_asked_for: bool = False
    was_full: bool = False


class Decision(NamedTuple):
    """What to do: how many of the oldest segments to delete and why; why to refuse messages."""

    delete: int
    reason: str
    refusal: str | None


def decide(settings: StoreSettings, situation: Situation) -> Decision:
    """The rules at the head of this module."""
    disks = (*situation.log_disks, situation.queue_disk)
    fullest = max(disks, key=lambda disk: disk.percent)
    refusal = _refusal(settings, situation)
    used_max = min(max(settings.disk_used_percent, _PERCENT_MIN), _PERCENT_MAX)
    is_forced = settings.clean_forcibly and fullest.percent > settings.disk_forcible_percent
    if is_forced:
        reason = f"{fullest}, more than {settings.disk_forcible_percent} %"
    elif fullest.percent > used_max:
        reason = f"{fullest}, more than {used_max} %"
    elif situation.is_asked_for:
        reason = "it was asked for"
    elif situation.hour in settings.delete_at_hours():
        reason = f"it is {situation.hour} o'clock"
    else:
        return Decision(0, "", refusal)
    expired_ms = situation.now_ms - settings.retention_hours * _HOUR_MS
    count = 0
    for written_ms in situation.written_ms[:-1]:
        if count >= settings.delete_batch_max or not (is_forced or written_ms <= expired_ms):
            break
        count += 1
    return Decision(count, reason, refusal)


def _refusal(settings: StoreSettings, situation: Situation) -> str | None:
    limit = settings.disk_warning_percent
    if situation.was_full:
        limit = min(limit, settings.disk_forcible_percent)
    full = None
    if all(disk.percent > limit for disk in situation.log_disks):
        full = min(situation.log_disks, key=lambda disk: disk.percent)
    elif situation.queue_disk.percent > limit:
        full = situation.queue_disk
    if full is None:
        return None
    return (
        f"{full}; messages are refused above {settings.disk_warning_percent} % until it is no "
        f"more than {min(settings.disk_forcible_percent, settings.disk_warning_percent)} % full"
    )


class Retained(Protocol):
    """What retention needs of the store. Everything but ``remove`` is quick."""

    def disks(self) -> tuple[Sequence[Disk], Disk]:
        """The disks of the log, and the disk of the queues."""
        ...

    def written_ms(self) -> list[int]:
        """When each segment of the log was last written, oldest first."""
        ...

    def forget_oldest(self) -> str:
        """Let go of the oldest segment; the path of its file, which nobody uses any more."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file. May block; OSError when it cannot be done."""
        ...

    def trim(self) -> list[str]:
        """Let queues and index begin where the log begins; files that nobody uses any more."""
        ...

    def refuse(self, reason: str | None) -> None:
        """Take no messages, for this reason; None: take them again."""
        ...


class Retention:
    """The rounds. Owned by the loop."""

    def __init__(
        self, store: Retained, *, settings: Callable[[], StoreSettings], clock: Clock
    ) -> None:
        """``settings`` is asked in every round: most of them may change while running."""
        self._store = store
        self._settings = settings
        self._clock = clock
        self._rounds_asked_for = 0
        self._refusal: str | None = None
        self._is_high = False
        self._hung: dict[str, int] = {}

    @property
    def refusal(self) -> str | None:
        """Why the store takes no messages now, or None."""
        return self._refusal

    @property
    def hung(self) -> list[str]:
        """Files that could not be removed yet."""
        return list(self._hung)

    def ask(self) -> None:
        """Delete what is old enough now, not at the hour of deletion."""
        self._rounds_asked_for = MANUAL_ROUNDS

    async def run(self) -> None:
        """One round after another, until cancelled; the disks are looked at from the start."""
        self.look()
        await asyncio.sleep(min(FIRST_ROUND_MS, self._settings().clean_interval_ms) / 1000)
        while True:
            await self.round()
            await asyncio.sleep(self._settings().clean_interval_ms / 1000)

    def look(self) -> Decision:
        """Look at the disks, refuse or take messages accordingly, and say what is to be deleted."""
        settings, now_ms = self._settings(), self._clock.now_ms()
        log_disks, queue_disk = self._store.disks()
        decision = decide(
            settings,
            Situation(
                now_ms=now_ms,
                hour=_local_hour(now_ms),
                log_disks=log_disks,
                queue_disk=queue_disk,
                written_ms=self._store.written_ms(),
                is_asked_for=self._rounds_asked_for > 0,
                was_full=self._refusal is not None,
            ),
        )
        if decision.refusal is not None and self._refusal is None:
            log.error("messages are refused: reason=%s", decision.refusal)
        elif decision.refusal is None and self._refusal is not None:
            log.info("messages are taken again: disk=%s", log_disks[0])
        fullest = max((*log_disks, queue_disk), key=lambda disk: disk.percent)
        is_high = fullest.percent > settings.disk_forcible_percent
        if is_high and not self._is_high:
            log.warning(
                "a disk is filling up, segments are deleted whatever their age: disk=%s", fullest
            )
        elif self._is_high and not is_high:
            log.warning("a disk has room again: disk=%s", fullest)
        self._is_high = is_high
        self._refusal = decision.refusal
        self._store.refuse(decision.refusal)
        return decision

    async def round(self) -> int:
        """Look, delete, trim; how many segments went."""
        decision = self.look()
        if self._rounds_asked_for:
            self._rounds_asked_for -= 1
        await self._retry_hung()
        for number in range(decision.delete):
            if number:
                await asyncio.sleep(self._settings().delete_log_pause_ms / 1000)
            path = self._store.forget_oldest()
            level = logging.WARNING if self._is_high else logging.INFO
            log.log(level, "segment deleted: path=%s reason=%s", path, decision.reason)
            await self._remove(path)
        for number, path in enumerate(self._store.trim()):
            if number:
                await asyncio.sleep(self._settings().delete_queue_pause_ms / 1000)
            log.info("file deleted: path=%s reason=the log begins after it", path)
            await self._remove(path)
        if decision.delete:
            self.look()
        return decision.delete

    async def _remove(self, path: str) -> None:
        loop = asyncio.get_running_loop()
        try:
            await uninterrupted(loop.run_in_executor(None, self._store.remove, path))
        except OSError as error:
            again_ms = self._clock.monotonic_ms() + self._settings().redelete_hung_ms
            log.warning("file cannot be deleted, will be tried again: path=%s %s", path, error)
            self._hung[path] = again_ms
            raise_cancellation()
        else:
            self._hung.pop(path, None)

    async def _retry_hung(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for path in [path for path, again_ms in self._hung.items() if again_ms <= now_ms]:
            await self._remove(path)


def _local_hour(now_ms: int) -> int:
    return datetime.datetime.fromtimestamp(now_ms / 1000, datetime.UTC).astimezone().hour


def _size(size: int) -> str:
    if size >= 1 << 30:
        return f"{size / (1 << 30):.1f} GiB"
    return f"{size / (1 << 20):.1f} MiB"
