"""Headers of sending: plain and V2 sends, batches, replies, send-back and recall."""

from __future__ import annotations

from contrailmq.protocol.header import Header, Int32, RpcRequest, TopicRequest, wire


class SendMessageRequest(TopicRequest, frozen=True, kw_only=True):
    """RequestCodes 10 and 324: one message, or with ``batch`` an encoded batch, in the body.

    Only what a send cannot do without is required; the other clients leave out the rest.
    """

    producer_group: str
    topic: str
    default_topic: str = "TBW102"
    default_topic_queue_nums: Int32 = 4
    queue_id: Int32
    sys_flag: Int32 = 0
    born_timestamp: int = 0
    flag: Int32 = 0
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    batch: bool | None = None
    max_reconsume_times: Int32 | None = None


class SendMessageRequestV2(RpcRequest, frozen=True, kw_only=True):
    """RequestCodes 310, 320 and 325: ``SendMessageRequest`` with names of one letter."""

    producer_group: str = wire("a")
    topic: str = wire("b")
    default_topic: str = wire("c", default="TBW102")
    default_topic_queue_nums: Int32 = wire("d", default=4)
    queue_id: Int32 = wire("e")
    sys_flag: Int32 = wire("f", default=0)
    born_timestamp: int = wire("g", default=0)
    flag: Int32 = wire("h", default=0)
    properties: str | None = wire("i", default=None)
    reconsume_times: Int32 | None = wire("j", default=None)
    unit_mode: bool | None = wire("k", default=None)
    max_reconsume_times: Int32 | None = wire("l", default=None)
    batch: bool | None = wire("m", default=None)
    broker_name: str | None = wire("n", default=None)
    logical: bool | None = wire("lo", default=None)

    @classmethod
    def of(cls, header: SendMessageRequest) -> SendMessageRequestV2:
        """The same header in its short form."""
        return cls(**{name: getattr(header, name) for name in _SHARED})

    def v1(self) -> SendMessageRequest:
        """The same header in its long form."""
        return SendMessageRequest(**{name: getattr(self, name) for name in _SHARED})


_SHARED = tuple(SendMessageRequest.__struct_fields__)


class SendMessageResponse(Header, frozen=True, kw_only=True):
    """Where a message was stored; several ids of a batch are joined by commas."""

    msg_id: str
    queue_id: Int32
    queue_offset: int
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    region: str | None = wire("MSG_REGION", default=None)
    trace_on: bool | None = wire("TRACE_ON", default=None)


class ReplyMessageRequest(RpcRequest, frozen=True, kw_only=True):
    """RequestCode 326, broker to client: the reply to a request that client has sent."""

    producer_group: str
    topic: str
    default_topic: str = ""
    default_topic_queue_nums: Int32 = 0
    queue_id: Int32 = 0
    sys_flag: Int32 = 0
    born_timestamp: int = 0
    flag: Int32 = 0
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    born_host: str
    store_host: str
    store_timestamp: int


class ConsumerSendMsgBackRequest(RpcRequest, frozen=True, kw_only=True):
    """RequestCode 36: consume the message at this commit-log offset again, later."""

    offset: int
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool | None = None
    max_reconsume_times: Int32 | None = None


class RecallMessageRequest(TopicRequest, frozen=True, kw_only=True):
    """RequestCode 370: take back a timer message that is not delivered yet."""

    producer_group: str | None = None
    topic: str
    recall_handle: str


class RecallMessageResponse(Header, frozen=True, kw_only=True):
    """The id of the message that was taken back."""

    msg_id: str
