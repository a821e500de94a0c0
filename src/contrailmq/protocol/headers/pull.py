"""Headers of pulling."""

from __future__ import annotations

from typing import Final

from contrailmq.protocol.header import Header, Int32, TopicRequest

# Bits of a pull's sys_flag (PullSysFlag).
COMMIT_FLAG: Final = 1  # commit_offset holds an offset to commit
SUSPEND_FLAG: Final = 2  # the broker may hold the pull until a message arrives
SUBSCRIPTION_FLAG: Final = 4  # subscription holds the expression to filter by
LITE_FLAG: Final = 16  # the pull of a lite consumer


class PullMessageRequest(TopicRequest, frozen=True, kw_only=True):
    """RequestCodes 11 and 361: messages of one queue from an offset on."""

    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: int
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: int = 0
    suspend_timeout_millis: int = 0
    subscription: str | None = None
    sub_version: int = 0
    expression_type: str | None = None
    max_msg_bytes: Int32 | None = None
    request_source: Int32 | None = None
    proxy_froward_client_id: str | None = None  # spelled so on the wire


class PullMessageResponse(Header, frozen=True, kw_only=True):
    """What was found, and where to go on; present with codes 0, 19, 20 and 21 alike."""

    suggest_which_broker_id: int
    next_begin_offset: int
    min_offset: int
    max_offset: int
    offset_delta: int | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
    forbidden_type: Int32 | None = None
