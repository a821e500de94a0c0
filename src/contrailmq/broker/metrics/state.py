"""The state of a broker as figures: storage, clients, POP, timers, and what the original lacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from contrailmq.broker.metrics.rpc import RpcTimes
from contrailmq.broker.parts import Parts
from contrailmq.metrics.model import Family, Group, Histogram, Kind, Labels, Point, flag, labels
from contrailmq.net.budget import MemoryBudget
from contrailmq.net.connection import Connection
from contrailmq.net.settings import Lane
from contrailmq.protocol.names import TIMER_TOPIC, is_system_group
from contrailmq.protocol.versions import version_name
from contrailmq.store.store import Store
from contrailmq.store.timers.timers import StoreTimers

LOCAL: Final = labels(storage_type="local", storage_medium="disk")
PROCESSORS: Final = (
    "send", "async_put", "pull", "ack", "query_message", "client_manager", "heartbeat",
    "lite_pull", "transaction", "consumer_manager", "admin", "reply",
)  # fmt: skip
CONSUME_MODES: Final = {
    "CONSUME_ACTIVELY": "pull", "CONSUME_PASSIVELY": "push", "CONSUME_POP": "pop",
}  # fmt: skip
TIMER_BOUNDS_S: Final = (5, 60, 300, 900, 3600, 14_400, 28_800, 86_400)


def _gauge(name: str, text: str, unit: str = "") -> Family:
    return Family(name, Kind.GAUGE, text, unit)


def _counter(name: str, text: str) -> Family:
    return Family(name, Kind.COUNTER, text)


_WATERMARK: Final = _gauge(
    "rocketmq_processor_watermark", "Requests that wait for disk or replicas; others never queue."
)
_PERMISSION: Final = _gauge("rocketmq_broker_permission", "4 read, 2 write, 6 both.")
_PRODUCERS: Final = _gauge("rocketmq_producer_connections", "Connected producers.")
_CONSUMERS: Final = _gauge("rocketmq_consumer_connections", "Connected consumers.")
_STORAGE: Final = _gauge(
    "rocketmq_storage_size", "Used bytes of the volumes that hold the log.", "bytes"
)
_FLUSH_BEHIND: Final = _gauge(
    "rocketmq_storage_flush_behind_bytes", "Bytes of the log that are not certain on disk."
)
_DISPATCH_BEHIND: Final = _gauge(
    "rocketmq_storage_dispatch_behind_bytes", "Bytes of the log that are in no queue yet."
)
_RESERVED: Final = _gauge(
    "rocketmq_storage_message_reserve_time", "How long the oldest message is stored.",
    "milliseconds",
)  # fmt: skip
_REVIVE_LAG: Final = _gauge(
    "rocketmq_pop_revive_lag", "How late the oldest undecided checkpoint is.", "milliseconds"
)
_REVIVE_LATENCY: Final = _gauge(
    "rocketmq_pop_revive_latency", "How old the oldest unread entry of the revive topic is.",
    "milliseconds",
)  # fmt: skip
_REVIVED: Final = _counter(
    "rocketmq_pop_revive_retry_messages_total", "Popped messages that came back unsettled."
)
_REVIVE_IN: Final = _counter(
    "rocketmq_pop_revive_in_message_total", "Checkpoints and acknowledgements written."
)
_REVIVE_OUT: Final = _counter(
    "rocketmq_pop_revive_out_message_total", "Checkpoints and acknowledgements read."
)
_SCAN: Final = Family(
    "rocketmq_pop_buffer_scan_time_consume", Kind.HISTOGRAM,
    "Always empty: there is no buffer of checkpoints here that is scanned.", "milliseconds",
)  # fmt: skip
_NO_SCANS: Final = Histogram((1, 10, 100, 1000, 2000, 3000))
_CHECKPOINTS: Final = _gauge(
    "rocketmq_pop_checkpoint_buffer_size", "Checkpoints that are read and not decided."
)
_POP_OFFSETS: Final = _gauge(
    "rocketmq_pop_offset_buffer_size", "Popped messages that are not settled."
)
_TIMER_LAG: Final = _gauge(
    "rocketmq_timer_enqueue_lag", "Messages with a time that are not in the wheel yet."
)
_TIMER_LAG_MS: Final = _gauge(
    "rocketmq_timer_enqueue_latency", "How old the first of them is.", "milliseconds"
)
_TIMER_WAITING: Final = _gauge(
    "rocketmq_timer_dequeue_lag", "Messages that wait in the wheel for their time."
)
_TIMER_LATE: Final = _gauge(
    "rocketmq_timer_dequeue_latency", "How much the wheel is behind the clock.", "milliseconds"
)
_TIMER_SNAPSHOT: Final = _gauge(
    "rocketmq_timer_message_snapshot", "Messages in the wheel that are due within the bound."
)
_TIMING: Final = _gauge(
    "rocketmq_timing_messages", "Messages of a topic that wait in the wheel for their time."
)
_TIMER_IN: Final = _counter(
    "rocketmq_timer_enqueue_total", "Messages of a topic with a time of their own."
)
_TIMER_OUT: Final = _counter("rocketmq_timer_dequeue_total", "Such messages that were delivered.")
_DELAYS: Final = Family(
    "rocketmq_delay_message_latency", Kind.HISTOGRAM, "How far off their times were.", "seconds"
)
_DELAY_WAITING: Final = _gauge(
    "contrail_delay_level_messages", "Messages that wait in a delay level."
)
_POLLS: Final = _gauge("contrail_long_polls", "Requests that wait for messages.")
_REPLICA_BYTES: Final = _gauge(
    "contrail_replication_lag", "Bytes of the log a replica has not confirmed.", "bytes"
)
_REPLICAS: Final = _gauge("contrail_replicas_connected", "Replicas that are connected.")
_REQUESTS: Final = _counter(
    "contrail_requests_total", "Requests by the path they took: the fast lane or a handler."
)
_SYNCS: Final = Family(
    "contrail_flush_latency", Kind.HISTOGRAM, "How long syncs of the log took.", "seconds"
)
_CONNECTIONS: Final = _gauge("contrail_connections", "Open connections.")
_MEMORY: Final = _gauge("contrail_connections_memory", "Bytes that all connections hold.", "bytes")
_MEMORY_MAX: Final = _gauge(
    "contrail_connection_memory_max", "Bytes that the largest connection holds.", "bytes"
)
_MEMORY_LIMIT: Final = _gauge("contrail_connections_memory_limit", "netMemorySizeMax.", "bytes")
_OVERRUNS: Final = _counter(
    "contrail_connections_closed_for_memory_total", "Connections closed for what they held."
)
_UNREADABLE: Final = _counter(
    "contrail_unreadable_records_total", "Places of the log where reads found no record."
)
_PUT_FAILED: Final = _counter(
    "contrail_put_failures_total", "Messages and batches that the store refused."
)
_LOG_SIZE: Final = _gauge(
    "contrail_log_size", "Bytes of the log, from its first to its last record.", "bytes"
)
_DISK: Final = _gauge("contrail_disk_usage_ratio", "Share of the volume that is used.")
_TOPICS: Final = _gauge("contrail_topics", "Topics of the broker.")
_GROUPS: Final = _gauge("contrail_consumer_groups", "Groups of the broker.")
_MASTER: Final = _gauge("contrail_is_primary", "1 on a primary, 0 on a replica.")


class BrokerState:
    """Tells what holds now. ``connections`` lists the open ones, ``replicas`` what each lacks."""

    def __init__(
        self,
        parts: Parts,
        rpc: RpcTimes,
        *,
        connections: Callable[[], Iterable[Connection]],
        replicas: Callable[[], Iterable[tuple[str, int]]],
        budget: MemoryBudget,
    ) -> None:
        self._parts = parts
        self._rpc = rpc
        self._connections = connections
        self._replicas = replicas
        self._budget = budget

    def source(self) -> Iterator[Group]:
        """All families."""
        parts = self._parts
        yield _PERMISSION, [Point((), parts.tables.live.now.permission)]
        yield from self._network()
        yield from self._clients()
        yield from self._storage(parts.store)
        yield from self._pop()
        yield from self._timers()
        yield from self._own()

    def _network(self) -> Iterator[Group]:
        count = total = largest = 0
        waiting = [0] * len(Lane)
        for connection in self._connections():
            size = connection.held_size
            count += 1
            total += size
            largest = max(largest, size)
            if any(connection.in_flight):
                for lane, flying in enumerate(connection.in_flight):
                    waiting[lane] += flying
        held = {"send": waiting[Lane.SEND], "admin": waiting[Lane.ADMIN]}
        yield _WATERMARK, [Point(labels(processor=p), held.get(p, 0)) for p in PROCESSORS]
        yield _CONNECTIONS, [Point((), count)]
        yield _MEMORY, [Point((), total)]
        yield _MEMORY_MAX, [Point((), largest)]
        yield _MEMORY_LIMIT, [Point((), self._budget.limit)]
        yield _OVERRUNS, [Point((), self._budget.closed_count)]

    def _clients(self) -> Iterator[Group]:
        tables = self._parts.tables
        found: Counter[Labels] = Counter()
        for _, members in list(tables.producers.groups()):
            found.update(labels(**_client(m.language, m.version)) for m in members)
        yield _PRODUCERS, [Point(key, count) for key, count in found.items()]
        found = Counter()
        for group in list(tables.consumers.groups()):
            for member in group.members.values():
                found[
                    labels(
                        **_client(member.language, member.version),
                        consumer_group=group.name,
                        consume_mode=CONSUME_MODES.get(group.consume_type, "push"),
                        is_system=flag(is_system_group(group.name)),
                    )
                ] += 1
        yield _CONSUMERS, [Point(key, count) for key, count in found.items()]
        yield _TOPICS, [Point((), len(tables.topics))]
        yield _GROUPS, [Point((), len(tables.groups))]

    def _storage(self, store: Store) -> Iterator[Group]:
        usages = [store.files.usage(path) for path in store.layout.commit_logs]
        yield _STORAGE, [Point(LOCAL, sum(usage.total - usage.free for usage in usages))]
        behind = store.max_offset - store.flushed_offset
        yield _FLUSH_BEHIND, [Point(LOCAL, max(behind, 0))]
        behind = store.max_offset - store.derivation.derived_offset
        yield _DISPATCH_BEHIND, [Point(LOCAL, max(behind, 0))]
        earliest_ms = store.earliest_time()
        age_ms = self._parts.clock.now_ms() - earliest_ms if earliest_ms > 0 else 0
        yield _RESERVED, [Point(LOCAL, max(age_ms, 0))]
        yield _LOG_SIZE, [Point((), store.max_offset - store.min_offset)]
        yield _DISK, [Point((), max(usage.ratio for usage in usages))]
        yield _SYNCS, [store.sync_times.spread()]
        yield _UNREADABLE, [Point((), store.log.gatherer.unreadable)]

    def _pop(self) -> Iterator[Group]:
        pop, store = self._parts.pop, self._parts.store
        now_ms = self._parts.clock.now_ms()
        lags, latencies = [], []
        for queue in pop.revive.queues:
            key = labels(queue_id=str(queue.queue_id))
            due = [held.check_point.due_ms for held in queue.held.values()]
            lags.append(Point(key, max(now_ms - min(due), 0) if due else 0))
            _, end = store.bounds(pop.revive.topic, queue.queue_id)
            unread_ms = 0
            if queue.next_offset < end:
                unread_ms = store.store_time(pop.revive.topic, queue.queue_id, queue.next_offset)
            latencies.append(Point(key, max(now_ms - unread_ms, 0) if unread_ms > 0 else 0))
        yield _REVIVE_LAG, lags
        yield _REVIVE_LATENCY, latencies
        tally = self._parts.tables.counters.revives
        yield _REVIVE_IN, [
            Point(
                labels(
                    consumer_group=group, topic=topic, revive_message_type=kind,
                    put_status="PUT_OK",
                ),
                count,
            )
            for (group, topic, kind), count in tally.written.items()
        ]  # fmt: skip
        yield _REVIVE_OUT, [
            Point(
                labels(
                    consumer_group=group, topic=topic, revive_message_type=kind,
                    queue_id=str(queue_id),
                ),
                count,
            )
            for (group, topic, kind, queue_id), count in tally.read.items()
        ]  # fmt: skip
        yield (
            _REVIVED,
            [
                Point(labels(consumer_group=group, topic=topic, put_status="PUT_OK"), count)
                for (group, topic), count in tally.retried.items()
            ],
        )
        yield _SCAN, [_NO_SCANS.spread()]
        yield _CHECKPOINTS, [Point((), sum(len(queue.held) for queue in pop.revive.queues))]
        yield _POP_OFFSETS, [Point((), pop.in_flight.total())]

    def _timers(self) -> Iterator[Group]:
        wheel, now_ms = self._parts.wheel, self._parts.clock.now_ms()
        late_ms = wheel.late_s(now_ms) * 1000
        tally = self._parts.tables.counters.timers
        for family, table in (
            (_TIMING, wheel.counts),
            (_TIMER_IN, tally.came),
            (_TIMER_OUT, tally.delivered),
        ):
            yield family, [Point(_timed(topic), count) for topic, count in table.items()]
        yield _DELAYS, [delays.spread(_timed(topic)) for topic, delays in tally.delays_s.items()]
        yield _TIMER_LAG, [Point(LOCAL, wheel.behind())]
        yield _TIMER_LAG_MS, [Point(LOCAL, self._unread_ms(now_ms))]
        yield _TIMER_WAITING, [Point(LOCAL, sum(wheel.counts.values()))]
        yield _TIMER_LATE, [Point(LOCAL, late_ms)]
        yield (
            _TIMER_SNAPSHOT,
            (
                Point(
                    (*LOCAL, ("timer_bound_s", str(bound))),
                    _due_within(wheel, now_ms + bound * 1000),
                )
                for bound in TIMER_BOUNDS_S
            ),
        )
        delay = self._parts.delay
        yield (
            _DELAY_WAITING,
            [
                Point(labels(level=str(level)), max(end - cursor, 0))
                for level in delay.levels()
                for cursor, end in [delay.waiting(level)]
            ],
        )

    def _unread_ms(self, now_ms: int) -> int:
        """How old the first message is that is not in the wheel yet; 0 for none."""
        wheel = self._parts.wheel
        if not wheel.behind():
            return 0
        return max(now_ms - self._parts.store.store_time(TIMER_TOPIC, 0, wheel.queue_offset), 0)

    def _own(self) -> Iterator[Group]:
        parts = self._parts
        yield (
            _POLLS,
            [
                Point(labels(kind="pull"), len(parts.polls)),
                Point(labels(kind="pop"), len(parts.pop.polls)),
            ],
        )
        lacking = list(self._replicas())
        yield _REPLICAS, [Point((), len(lacking))]
        yield _REPLICA_BYTES, [Point(labels(replica=peer), lag) for peer, lag in lacking]
        fast = sum(times.total for times in self._rpc.lanes.values())
        yield (
            _REQUESTS,
            [
                Point(labels(path="fast_lane"), fast),
                Point(labels(path="handler"), self._rpc.count),
            ],
        )
        yield _PUT_FAILED, [Point((), parts.tables.counters.put_failed)]
        yield _MASTER, [Point((), int(parts.identity.is_master))]


def _due_within(wheel: StoreTimers, until_ms: int) -> int:
    """How many messages of the wheel are due before a time."""
    if not any(wheel.counts.values()):
        return 0
    return max(wheel.total() - wheel.total(until_ms), 0)


def _timed(topic: str) -> Labels:
    return (*LOCAL, ("topic", topic))


def _client(language: str, version: int) -> dict[str, str]:
    return {
        "language": language.lower() or "unknown",
        "version": version_name(version).lower(),
        "protocol_type": "remoting",
    }
