"""Names of topics and groups: which are legal, which belong to the system.

``topic_fault``/``group_fault`` are the client's checks (Validators), ``stored_topic_fault`` is
the broker's (TopicValidator); each answers with RocketMQ's own words, or None for a good name.
"""

from __future__ import annotations

import re
from typing import Final

RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
LMQ_PREFIX: Final = "%LMQ%"
SYSTEM_TOPIC_PREFIX: Final = "rmq_sys_"
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"
REPLY_TOPIC_SUFFIX: Final = "REPLY_TOPIC"

AUTO_CREATE_TOPIC: Final = "TBW102"
MASTER_ID: Final = 0  # brokerId of a master; slaves have larger ones (MixAll.MASTER_ID)

SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
BENCHMARK_TOPIC: Final = "BenchmarkTest"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
TRANS_CHECK_MAX_TIME_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
OFFSET_MOVED_EVENT: Final = "OFFSET_MOVED_EVENT"
AUDIT_TOPIC: Final = "rmq_sys_audit"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
REVIVE_TOPIC_PREFIX: Final = "rmq_sys_REVIVE_LOG_"
SYNC_BROKER_MEMBER_PREFIX: Final = "rmq_sys_SYNC_BROKER_MEMBER_"

SYSTEM_TOPICS: Final = frozenset(
    {
        AUTO_CREATE_TOPIC,
        SCHEDULE_TOPIC,
        BENCHMARK_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        TRACE_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_EVENT,
    }
)
SEND_FORBIDDEN_TOPICS: Final = frozenset(
    {
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_EVENT,
    }
)

DEFAULT_PRODUCER_GROUP: Final = "DEFAULT_PRODUCER"
DEFAULT_CONSUMER_GROUP: Final = "DEFAULT_CONSUMER"
TOOLS_GROUP: Final = "TOOLS_CONSUMER"
CLIENT_INNER_PRODUCER_GROUP: Final = "CLIENT_INNER_PRODUCER"
TRANSACTION_GROUP: Final = "CID_RMQ_SYS_TRANS"
SYSTEM_GROUPS: Final = frozenset(
    {
        DEFAULT_PRODUCER_GROUP,
        DEFAULT_CONSUMER_GROUP,
        TOOLS_GROUP,
        "SCHEDULE_CONSUMER",
        "FILTERSRV_CONSUMER",
        "__MONITOR_CONSUMER",
        CLIENT_INNER_PRODUCER_GROUP,
        "SELF_TEST_P_GROUP",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
        "CID_ONSAPI_PULL",
        TRANSACTION_GROUP,
    }
)

TOPIC_LENGTH_MAX: Final = 127
RETRY_TOPIC_LENGTH_MAX: Final = 255
GROUP_LENGTH_MAX: Final = 255
LEGAL_CHARACTERS: Final = "^[%|a-zA-Z0-9_-]+$"
_LEGAL: Final = re.compile(r"[%|a-zA-Z0-9_-]+")


def topic_fault(topic: str | None) -> str | None:
    """Why a producer or consumer may not use this topic name."""
    if topic is None or not topic.strip():
        return "The specified topic is blank"
    if len(topic) > TOPIC_LENGTH_MAX:
        return f"The specified topic is longer than topic max length {TOPIC_LENGTH_MAX}."
    if not _LEGAL.fullmatch(topic):
        return (
            f"The specified topic[{topic}] contains illegal characters, "
            f"allowing only {LEGAL_CHARACTERS}"
        )
    return None


def group_fault(group: str | None) -> str | None:
    """Why a producer or consumer may not use this group name."""
    if group is None or not group.strip():
        return "the specified group is blank"
    if len(group) > GROUP_LENGTH_MAX:
        return f"the specified group is longer than group max length {GROUP_LENGTH_MAX}."
    if not _LEGAL.fullmatch(group):
        return (
            f"the specified group[{group}] contains illegal characters, "
            f"allowing only {LEGAL_CHARACTERS}"
        )
    return None


def stored_topic_fault(topic: str | None) -> str | None:
    """Why a broker refuses to create, or to store into, a topic of this name."""
    if topic is None or not topic.strip():
        return "The specified topic is blank."
    if not _LEGAL.fullmatch(topic):
        return f"The specified topic contains illegal characters, allowing only {LEGAL_CHARACTERS}"
    if len(topic) > topic_length_max(topic):
        return "The specified topic is longer than topic max length."
    return None


def topic_length_max(topic: str) -> int:
    """Characters a topic name may have: a group's name must fit behind its prefix."""
    return RETRY_TOPIC_LENGTH_MAX if is_retry_or_dlq(topic) else TOPIC_LENGTH_MAX


def is_system_topic(topic: str) -> bool:
    """Whether a topic is the broker's own, which nobody may change or delete."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)


def is_send_forbidden(topic: str) -> bool:
    """Whether clients may not send to a topic."""
    return topic in SEND_FORBIDDEN_TOPICS


def is_system_group(group: str) -> bool:
    """Whether a group is the broker's own, which nobody has to create."""
    return group in SYSTEM_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)


def is_retry_topic(topic: str) -> bool:
    """Whether a topic holds a group's retries."""
    return topic.startswith(RETRY_PREFIX)


def is_dlq_topic(topic: str) -> bool:
    """Whether a topic holds a group's dead letters."""
    return topic.startswith(DLQ_PREFIX)


def is_retry_or_dlq(topic: str) -> bool:
    """Whether a topic belongs to one group."""
    return topic.startswith((RETRY_PREFIX, DLQ_PREFIX))


def is_lmq(topic: str | None) -> bool:
    """Whether a name is a light queue's."""
    return topic is not None and topic.startswith(LMQ_PREFIX)


def retry_topic(group: str) -> str:
    """Where a group's failed messages wait for their next attempt."""
    return group if group.startswith(RETRY_PREFIX) else RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    """Where a group's messages end that failed too often."""
    return DLQ_PREFIX + group


def reply_topic(cluster: str) -> str:
    """Where the answers to requests go in a cluster."""
    return f"{cluster}_{REPLY_TOPIC_SUFFIX}"


def pop_retry_topic(topic: str, group: str) -> str:
    """The retry topic of one topic of a group under POP consumption (its first naming)."""
    return f"{RETRY_PREFIX}{group}_{topic}"


def pop_retry_topic_v2(topic: str, group: str) -> str:
    """The same by its second naming, from which topic and group can be told apart."""
    return f"{RETRY_PREFIX}{group}+{topic}"


def revive_topic(cluster: str) -> str:
    """Where checkpoints and acknowledgements of POP consumption meet in a cluster."""
    return REVIVE_TOPIC_PREFIX + cluster
