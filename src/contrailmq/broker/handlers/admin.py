"""Request code to handler: administration."""

from __future__ import annotations

from contrailmq.broker.config.saved_file import SmallFiles
from contrailmq.broker.handlers.admin_assign import Assignments
from contrailmq.broker.handlers.admin_broker import (
    AclOff,
    BrokerConfig,
    CleanUp,
    DescribeRuntime,
    cold_data_flow,
    read_ahead_mode,
    taken_note_of,
)
from contrailmq.broker.handlers.admin_client import Connections, WhoConsumes
from contrailmq.broker.handlers.admin_forward import AskClient
from contrailmq.broker.handlers.admin_group import (
    DeleteGroup,
    ForbidGroup,
    ListGroups,
    UpdateGroups,
)
from contrailmq.broker.handlers.admin_message import QueryQueue, ResumeHalf
from contrailmq.broker.handlers.admin_offset import (
    CloneOffsets,
    ConsumerStatus,
    CopyOffsets,
    ResetOffset,
)
from contrailmq.broker.handlers.admin_progress import (
    CorrectionOffsets,
    Progress,
    StatsItem,
    TimeSpans,
)
from contrailmq.broker.handlers.admin_topic import (
    DeleteTopic,
    ListTopics,
    TopicStats,
    UpdateTopics,
)
from contrailmq.broker.parts import Parts
from contrailmq.net.dispatch import Handler
from contrailmq.protocol.codes import RequestCode


def admin_handlers(parts: Parts, files: SmallFiles) -> dict[int, Handler]:
    """The handlers of what administrators ask; ``files`` is for the configuration file."""
    return (
        _topic_handlers(parts)
        | _group_handlers(parts)
        | _progress_handlers(parts)
        | _offset_handlers(parts)
        | _message_handlers(parts)
        | _broker_handlers(parts, files)
    )


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
            on_deleted=lambda topic: parts.pop.forget(topic=topic),
        ),
        RequestCode.GET_ALL_TOPIC_CONFIG: listing.all,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: listing.system,
        RequestCode.GET_TOPIC_CONFIG: listing.one,
        RequestCode.GET_TOPIC_STATS_INFO: TopicStats(
            tables.topics, store, identity=parts.identity, stats=parts.stats
        ),
    }


def _group_handlers(parts: Parts) -> dict[int, Handler]:
    tables = parts.tables
    update, listing = UpdateGroups(tables.groups), ListGroups(tables.groups)
    connections = Connections(tables.consumers, tables.producers)
    consumes = WhoConsumes(tables.consumers, tables.offsets, identity=parts.identity)
    return {
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: update.one,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: update.many,
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: listing.all,
        RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: listing.one,
        RequestCode.DELETE_SUBSCRIPTIONGROUP: DeleteGroup(
            tables.groups,
            tables.offsets,
            tables.counters,
            on_deleted=lambda group: parts.pop.forget(group=group),
        ),
        RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: ForbidGroup(tables.groups),
        RequestCode.GET_CONSUMER_CONNECTION_LIST: connections.consumers,
        RequestCode.GET_PRODUCER_CONNECTION_LIST: connections.producers,
        RequestCode.GET_ALL_PRODUCER_INFO: connections.all_producers,
        RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: consumes.groups,
        RequestCode.QUERY_TOPICS_BY_CONSUMER: consumes.topics,
        RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: consumes.subscription,
    }


def _progress_handlers(parts: Parts) -> dict[int, Handler]:
    tables, store = parts.tables, parts.store
    progress = Progress(
        tables.topics,
        tables.offsets,
        store,
        groups=tables.groups,
        consumers=tables.consumers,
        stats=parts.stats,
        identity=parts.identity,
    )
    spans = TimeSpans(
        tables.topics, tables.offsets, store, identity=parts.identity, clock=parts.clock
    )
    return {
        RequestCode.GET_CONSUME_STATS: progress.of_group,
        RequestCode.GET_BROKER_CONSUME_STATS: progress.of_broker,
        RequestCode.QUERY_CONSUME_TIME_SPAN: spans,
        RequestCode.QUERY_CORRECTION_OFFSET: CorrectionOffsets(tables.offsets),
        RequestCode.VIEW_BROKER_STATS_DATA: StatsItem(parts.stats),
    }


def _offset_handlers(parts: Parts) -> dict[int, Handler]:
    tables = parts.tables
    copies = CopyOffsets(
        tables.offsets, parts.delay, version=lambda: parts.configuration.version.value
    )
    assignments = Assignments(
        tables.consumers,
        parts.registration,
        parts.client,
        modes=tables.modes,
        live=tables.live,
        saving=parts.saving,
    )
    return {
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: ResetOffset(
            tables.offsets,
            tables.topics,
            parts.store,
            groups=tables.groups,
            consumers=tables.consumers,
            polls=parts.polls,
            live=tables.live,
            identity=parts.identity,
        ),
        RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: ConsumerStatus(tables.consumers),
        RequestCode.CLONE_GROUP_OFFSET: CloneOffsets(
            tables.offsets, tables.topics, tables.consumers
        ),
        RequestCode.GET_ALL_CONSUMER_OFFSET: copies.consumers,
        RequestCode.GET_ALL_DELAY_OFFSET: copies.delays,
        RequestCode.QUERY_ASSIGNMENT: assignments.query,
        RequestCode.SET_MESSAGE_REQUEST_MODE: assignments.set_mode,
        RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: assignments.modes,
    }


def _message_handlers(parts: Parts) -> dict[int, Handler]:
    tables = parts.tables
    ask = AskClient(
        tables.consumers,
        parts.store,
        topics=tables.topics,
        groups=tables.groups,
        identity=parts.identity,
    )
    return {
        RequestCode.GET_CONSUMER_RUNNING_INFO: ask.running_info,
        RequestCode.CONSUME_MESSAGE_DIRECTLY: ask.consume,
        RequestCode.QUERY_CONSUME_QUEUE: QueryQueue(
            parts.store.queues, tables.consumers, tables.filters
        ),
        RequestCode.RESUME_CHECK_HALF_MESSAGE: ResumeHalf(parts.halves),
    }


def _broker_handlers(parts: Parts, files: SmallFiles) -> dict[int, Handler]:
    config = BrokerConfig(parts.configuration, files)
    clean = CleanUp(parts.store, parts.tables.topics)
    acl = AclOff()
    return {
        RequestCode.GET_BROKER_RUNTIME_INFO: DescribeRuntime(parts.runtime),
        RequestCode.GET_BROKER_CONFIG: config.get,
        RequestCode.UPDATE_BROKER_CONFIG: config.update,
        RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: clean.queues,
        RequestCode.CLEAN_UNUSED_TOPIC: clean.topics,
        RequestCode.DELETE_EXPIRED_COMMITLOG: clean.log,
        RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: acl,
        RequestCode.DELETE_ACL_CONFIG: acl,
        RequestCode.GET_BROKER_CLUSTER_ACL_INFO: acl,
        RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: acl,
        RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG: acl,
        RequestCode.GET_COLD_DATA_FLOW_CTR_INFO: cold_data_flow,
        RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: taken_note_of,
        RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: taken_note_of,
        RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE: taken_note_of,
        RequestCode.SET_COMMITLOG_READ_MODE: read_ahead_mode,
    }
