"""Small tables of services and their files: part of the composition of a broker."""

from __future__ import annotations

from typing import Final

from contrailmq.broker.config.saving import Saving, put_back_topics
from contrailmq.broker.handlers.timer import timer_metrics
from contrailmq.broker.parts import Parts, Tables
from contrailmq.broker.tables.modes import RequestModes
from contrailmq.protocol.bodies.queues import DelayOffsets, MessageRequestModes, TimerMetrics
from contrailmq.store.store import Store

DELAY_OFFSETS_S: Final = 10.0  # flushDelayOffsetInterval


def keep_tables(parts: Parts) -> None:
    """Read the small tables of all services, and keep them from now on."""
    keep_delay_offsets(parts)
    keep_timer_counts(parts)
    keep_modes(parts.tables.modes, parts.saving)
    parts.pop.keep(parts.saving)


def keep_delay_offsets(parts: Parts) -> None:
    """Read the cursors of delay levels, and keep them in ``delayOffset.json``."""
    found = parts.saving.file("delayOffset.json").read(DelayOffsets.decode)
    if found is not None:
        parts.delay.load(found)
    parts.saving.add(
        "delayOffset.json",
        lambda: parts.delay.saved().encode(pretty=True),
        revision=lambda: parts.delay.revision,
        interval_s=DELAY_OFFSETS_S,
    )


def keep_timer_counts(parts: Parts) -> None:
    """Read how many timer messages wait by topic, and keep it in ``timermetrics``."""
    counts = parts.wheel.counts
    found = parts.saving.file("timermetrics").read(TimerMetrics.decode, is_cache=True)
    if found is not None:
        counts.update({topic: entry.count for topic, entry in found.timing_count.items()})
    parts.saving.add(
        "timermetrics",
        lambda: timer_metrics(counts, parts.clock.now_ms()).encode(),
        revision=lambda: tuple(counts.items()),
        interval_s=DELAY_OFFSETS_S,
    )


def keep_modes(modes: RequestModes, saving: Saving) -> None:
    """Read which groups pop which topics, and keep it in ``messageRequestMode.json``."""
    found = saving.file("messageRequestMode.json").read(MessageRequestModes.decode)
    if found is not None:
        modes.load(found)
    saving.add(
        "messageRequestMode.json",
        lambda: modes.saved().encode(pretty=True),
        revision=lambda: modes.revision,
    )


def use_kinds(tables: Tables, store: Store) -> None:
    """Tell tables of light queues, and the store which topics have batch queues."""
    has_lights = store.settings.lmq_enable
    tables.topics.has_lights = tables.groups.has_lights = tables.offsets.has_lights = has_lights
    tables.counters.has_lights = has_lights
    store.derivation.is_batch_topic = tables.topics.is_batch


def restore_topics(saving: Saving, tables: Tables, store: Store) -> None:
    """Put back topics that have queues and were lost with the newest file of the table."""
    if saving.file("topics.json").is_behind:
        restore_newer_topics(tables, store, since=-1)


def restore_newer_topics(tables: Tables, store: Store, *, since: int) -> None:
    """Put back topics that the table lacks and that have messages behind this place of the log.

    A primary may die before its replica has asked for the topics it made last.
    """
    queues = ((one.topic, one.queue_id) for one in store.queues if one.writer.log_end > since)
    least = tables.live.now.default_topic_queue_nums
    put_back_topics(tables.topics, queues, queues_least=least)
