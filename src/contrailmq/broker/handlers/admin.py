"""Request code to handler: administration."""

from __future__ import annotations

from contrailmq.broker.handlers.admin_topic import (
    DeleteTopic,
    ListTopics,
    TopicStats,
    UpdateTopics,
)
from contrailmq.broker.parts import Parts
from contrailmq.net.dispatch import Handler
from contrailmq.protocol.codes import RequestCode


def admin_handlers(parts: Parts) -> dict[int, Handler]:
    """The handlers of what administrators ask."""
    return _topic_handlers(parts)


def _topic_handlers(parts: Parts) -> dict[int, Handler]:
    tables, store = parts.tables, parts.store
    update = UpdateTopics(tables.topics, parts.registration)
    listing = ListTopics(tables.topics, parts.identity)
    return {
        RequestCode.UPDATE_AND_CREATE_TOPIC: update.one,
        RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: update.many,
        RequestCode.DELETE_TOPIC_IN_BROKER: DeleteTopic(
            tables.topics,
            tables.offsets,
            store,
            counters=tables.counters,
            registration=parts.registration,
        ),
        RequestCode.GET_ALL_TOPIC_CONFIG: listing.all,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: listing.system,
        RequestCode.GET_TOPIC_CONFIG: listing.one,
        RequestCode.GET_TOPIC_STATS_INFO: TopicStats(
            tables.topics, store, identity=parts.identity, stats=parts.stats
        ),
    }
