"""Minute, hour and day windows over the broker's running sums.

Theory of operation.  ``Counters`` only ever grow.  Every ten seconds ``sample`` notes by how much
each key has grown since the last time; keys that stood still cost nothing.  Six such intervals are
the minute, six intervals of ten minutes the hour, twenty-four of an hour the day, as in the
original (its lists of 7, 7 and 25 snapshots have that many intervals between them).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from contrailmq.broker.tables.counters import Counters
from contrailmq.protocol.names import DLQ_PREFIX

SAMPLE_INTERVAL_MS: Final = 10_000
_HOUR_STEP_MS: Final = 600_000
_DAY_STEP_MS: Final = 3_600_000
_MINUTE_INTERVALS: Final = 6
_HOUR_INTERVALS: Final = 6
_DAY_INTERVALS: Final = 24

_LATENCY: Final = "GROUP_GET_LATENCY"  # milliseconds pulls waited for the disk
_COUNTED: Final = ("QUEUE_PUT", "TOPIC_PUT", "QUEUE_GET", "GROUP_GET")  # also requests
_CALLS: Final = "_CALLS"

_Growth = dict[tuple[str, str], int]


class Window(NamedTuple):
    """What happened within a window: the sum, its rate a second, and the mean of one event."""

    sum: int
    tps: float
    average: float


class Windows(NamedTuple):
    """The three windows of one figure."""

    minute: Window
    hour: Window
    day: Window


class _Ring:
    """Growth by interval, the newest last."""

    def __init__(self, intervals: int) -> None:
        self._intervals: deque[tuple[int, _Growth]] = deque(maxlen=intervals)
        self._since: int | None = None

    def add(self, now_ms: int, growth: _Growth) -> None:
        if len(self._intervals) == self._intervals.maxlen:
            self._since = self._intervals[0][0]
        self._intervals.append((now_ms, growth))

    def begin(self, now_ms: int) -> None:
        if self._since is None:
            self._since = now_ms

    def window(self, key: tuple[str, str], events: tuple[str, str], born_ms: int) -> Window:
        """The window of a figure that began to be counted at ``born_ms``."""
        total = sum(growth.get(key, 0) for _, growth in self._intervals)
        times = sum(growth.get(events, 0) for _, growth in self._intervals)
        since = max(self._since or 0, born_ms)
        span = self._intervals[-1][0] - since if self._intervals else 0
        return Window(
            total, total * 1000 / span if span > 0 else 0.0, total / times if times else 0.0
        )


class Stats:
    """The figures behind VIEW_BROKER_STATS_DATA, by the original's names and keys."""

    def __init__(self, counters: Counters, *, cluster: str) -> None:
        self._counters = counters
        self._cluster = cluster
        self._last: Mapping[tuple[str, str], int] = {}
        self._born: Mapping[tuple[str, str], int] = {}
        self._minute = _Ring(_MINUTE_INTERVALS)
        self._hour = _Ring(_HOUR_INTERVALS)
        self._day = _Ring(_DAY_INTERVALS)
        self._hour_growth: _Growth = {}
        self._day_growth: _Growth = {}
        self._hour_at = self._day_at = 0
        self._began = False

    def sample(self, now_ms: int) -> None:
        """Note what has happened since the last call; made every ``SAMPLE_INTERVAL_MS``."""
        now = dict(self._figures())
        before_ms = now_ms - SAMPLE_INTERVAL_MS
        if not self._began:
            self._began = True
            for ring in (self._minute, self._hour, self._day):
                ring.begin(before_ms)
            self._hour_at = self._day_at = before_ms
        last = self._last
        # A figure that is new came up within this interval, and its rate counts from there.
        self._born = {key: self._born.get(key, before_ms) for key in now}
        growth = {
            key: value - last.get(key, 0) for key, value in now.items() if value != last.get(key)
        }
        self._last = now
        self._minute.add(now_ms, growth)
        for key, value in growth.items():
            self._hour_growth[key] = self._hour_growth.get(key, 0) + value
            self._day_growth[key] = self._day_growth.get(key, 0) + value
        if now_ms - self._hour_at >= _HOUR_STEP_MS:
            self._hour.add(now_ms, self._hour_growth)
            self._hour_growth, self._hour_at = {}, now_ms
        if now_ms - self._day_at >= _DAY_STEP_MS:
            self._day.add(now_ms, self._day_growth)
            self._day_growth, self._day_at = {}, now_ms

    def find(self, name: str, key: str) -> Windows | None:
        """The windows of one figure; None when nothing of that name and key was ever counted."""
        figure = (name, key)
        is_counted = self._is_counted(name, key)
        if not is_counted and name == _LATENCY:
            # What is in memory takes no time that could be told in milliseconds.
            is_counted = self._is_counted("QUEUE_GET_NUMS", _queue_key(key))
        if not is_counted:
            return None
        events = _events(name, key)
        born_ms = self._born.get(figure, 0)
        return Windows(
            self._minute.window(figure, events, born_ms),
            self._hour.window(figure, events, born_ms),
            self._day.window(figure, events, born_ms),
        )

    def _is_counted(self, name: str, key: str) -> bool:
        figure = (name, key)
        return figure in self._last or any(figure == known for known, _ in self._figures())

    def tps(self, name: str, key: str) -> float:
        """The rate of the last minute; 0 for what was never counted."""
        figure = (name, key)
        return self._minute.window(figure, figure, self._born.get(figure, 0)).tps

    def _figures(self) -> Iterator[tuple[tuple[str, str], int]]:
        topics: dict[str, list[int]] = {}
        for (topic, queue_id), put in self._counters.put_by_queue().items():
            yield ("QUEUE_PUT_NUMS", f"{topic}@{queue_id}"), put.count
            yield ("QUEUE_PUT_SIZE", f"{topic}@{queue_id}"), put.size
            yield ("QUEUE_PUT_CALLS", f"{topic}@{queue_id}"), put.calls
            total = topics.setdefault(topic, [0, 0, 0])
            total[0] += put.count
            total[1] += put.size
            total[2] += put.calls
        for topic, (count, size, calls) in topics.items():
            yield ("TOPIC_PUT_CALLS", topic), calls
            yield ("TOPIC_PUT_NUMS", topic), count
            yield ("TOPIC_PUT_SIZE", topic), size
            if topic.startswith(DLQ_PREFIX):
                yield ("DLQ_PUT_NUMS", f"{topic}@{topic[len(DLQ_PREFIX) :]}"), count
        groups: dict[tuple[str, str], list[int]] = {}
        for (topic, group, queue_id), got in self._counters.got_by_queue().items():
            yield ("QUEUE_GET_NUMS", f"{topic}@{queue_id}@{group}"), got.count
            yield ("QUEUE_GET_SIZE", f"{topic}@{queue_id}@{group}"), got.size
            yield ("QUEUE_GET_CALLS", f"{topic}@{queue_id}@{group}"), got.calls
            total = groups.setdefault((topic, group), [0, 0, 0])
            total[0] += got.count
            total[1] += got.size
            total[2] += got.calls
        for (topic, group), (count, size, calls) in groups.items():
            yield ("GROUP_GET_CALLS", f"{topic}@{group}"), calls
            yield ("GROUP_GET_NUMS", f"{topic}@{group}"), count
            yield ("GROUP_GET_SIZE", f"{topic}@{group}"), size
        for (topic, group, queue_id), waited in self._counters.waited_by_queue().items():
            yield (_LATENCY, f"{queue_id}@{topic}@{group}"), waited.size
        for (topic, group), count in self._counters.sent_back_by_group().items():
            yield ("SNDBCK_PUT_NUMS", f"{topic}@{group}"), count
        yield from self._settled("ACK", self._counters.acked_by_group())
        yield from self._settled("CK", self._counters.hidden_by_group())
        yield ("BROKER_PUT_NUMS", self._cluster), self._counters.put_total
        yield ("BROKER_GET_NUMS", self._cluster), self._counters.got_total
        put_user, got_user = self._counters.of_users()
        yield ("BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC", self._cluster), put_user
        yield ("BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC", self._cluster), got_user

    def _settled(
        self, what: str, counts: Mapping[tuple[str, str], int]
    ) -> Iterator[tuple[tuple[str, str], int]]:
        """Figures of POP, by group and of the whole broker; none before there is one."""
        for (topic, group), count in counts.items():
            yield (f"GROUP_{what}_NUMS", f"{topic}@{group}"), count
        if counts:
            yield (f"BROKER_{what}_NUMS", self._cluster), sum(counts.values())


def _queue_key(key: str) -> str:
    """The key of QUEUE_GET figures for that of a latency, which has the queue first."""
    queue_id, _, rest = key.partition("@")
    topic, _, group = rest.partition("@")
    return f"{topic}@{queue_id}@{group}"


def _events(name: str, key: str) -> tuple[str, str]:
    """The figure by whose growth the average of another is made.

    Messages and latencies are those of one request, as the original has it; a size is that of one
    message, also where a batch brought it.
    """
    if name == _LATENCY:
        return f"QUEUE_GET{_CALLS}", _queue_key(key)
    head = name.removesuffix("_NUMS")
    return (head + _CALLS if head in _COUNTED else name.replace("_SIZE", "_NUMS"), key)
