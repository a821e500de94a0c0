"""Headers of the POP family, which exists in 5.x and with JSON headers only."""

from __future__ import annotations

from contrailmq.protocol.header import Header, Int32, TopicRequest


class PopMessageRequest(TopicRequest, frozen=True, kw_only=True):
    """RequestCode 200050: messages of any queue (``queue_id`` -1), hidden from others a while.

    A number that is missing counts as 0, as the original takes it.
    """

    consumer_group: str
    topic: str
    queue_id: Int32 = 0
    max_msg_nums: Int32 = 0
    invisible_time: int = 0
    poll_time: int = 0
    born_time: int = 0
    init_mode: Int32 = 0
    exp_type: str | None = None
    exp: str | None = None
    order: bool | None = None
    attempt_id: str | None = None


class PopMessageResponse(Header, frozen=True, kw_only=True):
    """What was popped; on errors too, with zeros."""

    pop_time: int
    invisible_time: int
    revive_qid: Int32
    rest_num: int
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


class AckMessageRequest(TopicRequest, frozen=True, kw_only=True):
    """RequestCode 200051: one popped message is consumed."""

    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str | None = None
    offset: int


class PeekMessageRequest(TopicRequest, frozen=True, kw_only=True):
    """RequestCode 200052: look at messages without taking them."""

    consumer_group: str
    topic: str
    queue_id: Int32
    max_msg_nums: Int32


class ChangeInvisibleTimeRequest(TopicRequest, frozen=True, kw_only=True):
    """RequestCode 200053: hide a popped message for another while."""

    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str | None = None
    offset: int
    invisible_time: int


class ChangeInvisibleTimeResponse(Header, frozen=True, kw_only=True):
    """The new handle's parts."""

    pop_time: int
    invisible_time: int
    revive_qid: Int32


class NotificationRequest(TopicRequest, frozen=True, kw_only=True):
    """RequestCode 200054: wait until there is something to pop."""

    consumer_group: str
    topic: str
    queue_id: Int32
    poll_time: int = 0
    born_time: int = 0
    order: bool | None = None
    attempt_id: str | None = None


class NotificationResponse(Header, frozen=True, kw_only=True):
    """Whether there is something to pop."""

    has_msg: bool
    polling_full: bool | None = None


class PollingInfoRequest(TopicRequest, frozen=True, kw_only=True):
    """RequestCode 200055: how many pops wait in this queue?"""

    consumer_group: str
    topic: str
    queue_id: Int32


class PollingInfoResponse(Header, frozen=True, kw_only=True):
    """The number of waiting pops."""

    polling_num: Int32
