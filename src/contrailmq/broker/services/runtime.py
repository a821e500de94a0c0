"""What the broker is doing now, in the keys of the original (GET_BROKER_RUNTIME_INFO).

Rates are over the last ten seconds, minute and ten minutes: the sums at the moment of asking are
compared with samples taken every ten seconds.  Totals of yesterday and of this morning are the
sums at the last two midnights of the local zone since the broker started.
"""

from __future__ import annotations

import datetime
from collections import deque
from typing import Final, NamedTuple, Protocol

from contrailmq.broker.config.live_settings import LiveSettings
from contrailmq.broker.services.delay import DelayLevels
from contrailmq.broker.services.latencies import put_latencies
from contrailmq.broker.tables.counters import Counters
from contrailmq.clock import Clock
from contrailmq.protocol.fastjson import java_double
from contrailmq.protocol.versions import CURRENT_VERSION, version_name
from contrailmq.store.store import Store
from contrailmq.version import VERSION

SPANS_S: Final = (10, 60, 600)
SAMPLES_MAX: Final = 61
UNLIMITED: Final = 2_147_483_647
QUEUE_CAPACITY: Final = {
    "sendThreadPoolQueue": 10_000,
    "pullThreadPoolQueue": 100_000,
    "litePullThreadPoolQueue": 100_000,
    "queryThreadPoolQueue": 20_000,
    "ackThreadPoolQueue": 100_000,
}


class Totals(NamedTuple):
    """Sums since the broker started."""

    put: int
    found: int
    missed: int
    got: int
    put_user: int  # without the topics the broker keeps for itself
    got_user: int


class TimerFacts(Protocol):
    """What this module needs of the timers."""

    def late_s(self, now_ms: int) -> int:
        """How many seconds delivery is behind the clock."""
        ...

    def behind(self) -> int:
        """How many messages are not in the wheel yet."""
        ...

    def total(self) -> int:
        """How many messages wait in the wheel."""
        ...


class Runtime:
    """Collects samples, and tells the table of runtime information."""

    def __init__(
        self, store: Store, counters: Counters, delay: DelayLevels, *,
        timers: TimerFacts, live: LiveSettings, clock: Clock,
    ) -> None:  # fmt: skip
        self._store = store
        self._counters = counters
        self._delay = delay
        self._timers = timers
        self._live = live
        self._clock = clock
        self._boot_ms = clock.now_ms()
        self._samples: deque[tuple[int, Totals]] = deque(maxlen=SAMPLES_MAX)
        nothing = Totals(0, 0, 0, 0, 0, 0)
        self._samples.append((clock.monotonic_ms(), nothing))
        self._today = self._date()
        self._morning = self._yesterday = nothing

    def sample(self) -> None:
        """Note the sums; called every ten seconds."""
        totals = self._totals()
        self._samples.append((self._clock.monotonic_ms(), totals))
        today = self._date()
        if today != self._today:
            self._today = today
            self._yesterday, self._morning = self._morning, totals

    def table(self, *, legacy: bool = False) -> dict[str, str]:
        """All keys; ``legacy``: totals of the day as 4.9 counts them, with the broker's topics."""
        table = {
            "bootTimestamp": str(self._boot_ms),
            "runtime": _duration(self._clock.now_ms() - self._boot_ms),
            "brokerVersionDesc": version_name(CURRENT_VERSION),
            "brokerVersion": str(CURRENT_VERSION),
            "contrailVersion": VERSION,
            "brokerActive": "true",
            "startAcceptSendRequestTimeStamp": str(self._live.now.start_accept_send_ms),
            "pageCacheLockTimeMills": "0",
            "dispatchMaxBuffer": "0",
            "timerReadBehind": str(self._timers.late_s(self._clock.now_ms())),
            "timerOffsetBehind": str(self._timers.behind()),
            "timerCongestNum": str(self._timers.total()),
            "timerEnqueueTps": "0.0",
            "timerDequeueTps": "0.0",
            **self._totals_and_rates(legacy=legacy),
            **self._sizes(),
            **self._disks(),
        }
        for name, capacity in QUEUE_CAPACITY.items():
            # Requests are served as they come: there are no queues before thread pools here.
            table[f"{name}Size"] = "0"
            table[f"{name}Capacity"] = str(capacity)
            table[f"{name}HeadWaitTimeMills"] = "0"
        table["EndTransactionQueueSize"] = "0"
        table["EndTransactionThreadPoolQueueCapacity"] = "100000"
        for level in self._delay.levels():
            cursor, end = self._delay.waiting(level)
            if end or cursor:
                table[f"scheduleMessageOffset_{level}"] = f"{cursor},{end}"
        return table

    def _totals_and_rates(self, *, legacy: bool) -> dict[str, str]:
        now = self._totals()
        days = (self._yesterday, self._morning, now)
        puts = [day.put if legacy else day.put_user for day in days]
        gets = [day.got if legacy else day.got_user for day in days]
        put = self._rates([now.put - then.put for then in self._then()])
        found = self._rates([now.found - then.found for then in self._then()])
        missed = self._rates([now.missed - then.missed for then in self._then()])
        total = self._rates(
            [now.found + now.missed - then.found - then.missed for then in self._then()]
        )
        got = self._rates([now.got - then.got for then in self._then()])
        size = self._counters.put_size
        return {
            "msgPutTotalYesterdayMorning": str(puts[0]),
            "msgPutTotalTodayMorning": str(puts[1]),
            "msgPutTotalTodayNow": str(puts[2]),
            "msgGetTotalYesterdayMorning": str(gets[0]),
            "msgGetTotalTodayMorning": str(gets[1]),
            "msgGetTotalTodayNow": str(gets[2]),
            "putTps": put,
            "getFoundTps": found,
            "getMissTps": missed,
            "getTotalTps": total,
            "getTransferredTps": got,
            "getTransferedTps": got,  # as 4.9 spells it
            "putMessageTimesTotal": str(now.put),
            "putMessageFailedTimes": str(self._counters.put_failed),
            "putMessageSizeTotal": str(size),
            "putMessageAverageSize": java_double(size / now.put if now.put else 1.0),
            # A read is a copy out of memory: only what waits for the disk takes milliseconds.
            "getMessageEntireTimeMax": str(self._counters.wait_ms_max),
            **put_latencies(
                self._counters.put_times, self._counters.send_times, self._counters.batch_times
            ),
        }

    def _sizes(self) -> dict[str, str]:
        store = self._store
        behind = store.max_offset - store.derivation.derived_offset
        return {
            "commitLogMinOffset": str(store.min_offset),
            "commitLogMaxOffset": str(store.max_offset),
            "dispatchBehindBytes": str(max(behind, 0)),
            "earliestMessageTimeStamp": str(store.earliest_time()),
            "remainHowManyDataToFlush": _size(max(store.max_offset - store.flushed_offset, 0)),
            **self._buffers(),
        }

    def _buffers(self) -> dict[str, str]:
        """The write buffer, where there is one."""
        log, settings = self._store.log, self._store.settings
        if not log.has_write_buffer:
            return {"remainTransientStoreBufferNumbs": str(UNLIMITED)}
        left = max(settings.write_buffer_count - log.buffers_in_use(), 0)
        return {
            "remainTransientStoreBufferNumbs": str(left),
            "remainHowManyDataToCommit": _size(max(log.end_offset - log.committed_offset, 0)),
        }

    def _disks(self) -> dict[str, str]:
        files, layout = self._store.files, self._store.layout
        table: dict[str, str] = {}
        ratios = []
        total = free = 0
        for path in layout.commit_logs:
            usage = files.usage(path)
            ratios.append(usage.ratio)
            total, free = total + usage.total, free + usage.free
            table[f"commitLogDiskRatio_{path}"] = f"{usage.ratio:.2f}"
        table["commitLogDiskRatio"] = f"{min(ratios):.2f}"
        table["consumeQueueDiskRatio"] = f"{files.usage(layout.consume_queues).ratio:.2f}"
        table["commitLogDirCapacity"] = f"Total : {_size(total)}, Free : {_size(free)}."
        return table

    def _totals(self) -> Totals:
        counters = self._counters
        return Totals(
            counters.put_total,
            counters.got_found,
            counters.got_missed,
            counters.got_total,
            *counters.of_users(),
        )

    def _then(self) -> list[Totals]:
        return [totals for _, totals in self._ago()]

    def _ago(self) -> list[tuple[int, Totals]]:
        """For every span the youngest sample that is that old, or the oldest there is."""
        now_ms = self._clock.monotonic_ms()
        found = []
        for span_s in SPANS_S:
            old = [sample for sample in self._samples if now_ms - sample[0] >= span_s * 1000]
            found.append(old[-1] if old else self._samples[0])
        return found

    def _rates(self, growth: list[int]) -> str:
        now_ms = self._clock.monotonic_ms()
        spans_ms = [max(now_ms - at_ms, 1) for at_ms, _ in self._ago()]
        return " ".join(
            java_double(count * 1000 / ms) for count, ms in zip(growth, spans_ms, strict=True)
        )

    def _date(self) -> datetime.date:
        moment = datetime.datetime.fromtimestamp(self._clock.now_ms() / 1000, datetime.UTC)
        return moment.astimezone().date()


def _duration(milliseconds: int) -> str:
    """As DefaultMessageStore.getRuntimeInfo writes how long a broker runs."""
    seconds = max(milliseconds, 0) // 1000
    days, seconds = divmod(seconds, 86_400)
    hours, seconds = divmod(seconds, 3600)
    minutes, seconds = divmod(seconds, 60)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


def _size(count: int) -> str:
    """Bytes for people, in powers of 1024 (MixAll.humanReadableByteCount)."""
    if count < 1024:
        return f"{count} B"
    size = float(count)
    for unit in "KMGTPE":
        size /= 1024
        if size < 1024 or unit == "E":
            return f"{size:.1f} {unit}iB"
    return f"{count} B"
