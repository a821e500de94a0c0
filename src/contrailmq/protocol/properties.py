"""A message's properties: ``name 0x01 value 0x02`` over and over, and the names RocketMQ reserves.

Writers differ in the last separator: 5.x keeps it, 4.9 drops it; readers take both.  A name that
occurs twice has its last value (brokers append to what a producer wrote).  A pair without a name
or without a value is no pair, so an empty value does not survive.  Text is UTF-8; what is not
UTF-8 is replaced as Java replaces it, in both directions, and never an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

NAME_SEPARATOR: Final = "\x01"
PAIR_SEPARATOR: Final = "\x02"
KEY_SEPARATOR: Final = " "
PROPERTIES_SIZE_MAX: Final = 32767

PROPERTY_KEYS: Final = "KEYS"
PROPERTY_TAGS: Final = "TAGS"
PROPERTY_WAIT: Final = "WAIT"
PROPERTY_DELAY: Final = "DELAY"
PROPERTY_RETRY_TOPIC: Final = "RETRY_TOPIC"
PROPERTY_REAL_TOPIC: Final = "REAL_TOPIC"
PROPERTY_REAL_QUEUE_ID: Final = "REAL_QID"
PROPERTY_TRANSACTION_PREPARED: Final = "TRAN_MSG"
PROPERTY_PRODUCER_GROUP: Final = "PGROUP"
PROPERTY_MIN_OFFSET: Final = "MIN_OFFSET"
PROPERTY_MAX_OFFSET: Final = "MAX_OFFSET"
PROPERTY_BUYER_ID: Final = "BUYER_ID"
PROPERTY_ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
PROPERTY_TRANSFER_FLAG: Final = "TRANSFER_FLAG"
PROPERTY_CORRECTION_FLAG: Final = "CORRECTION_FLAG"
PROPERTY_MQ2_FLAG: Final = "MQ2_FLAG"
PROPERTY_RECONSUME_TIME: Final = "RECONSUME_TIME"
PROPERTY_MSG_REGION: Final = "MSG_REGION"
PROPERTY_TRACE_SWITCH: Final = "TRACE_ON"
PROPERTY_UNIQUE_KEY: Final = "UNIQ_KEY"
PROPERTY_EXTEND_UNIQ_INFO: Final = "EXTEND_UNIQ_INFO"
PROPERTY_MAX_RECONSUME_TIMES: Final = "MAX_RECONSUME_TIMES"
PROPERTY_CONSUME_START_TIME: Final = "CONSUME_START_TIME"
PROPERTY_INNER_NUM: Final = "INNER_NUM"
PROPERTY_INNER_BASE: Final = "INNER_BASE"
PROPERTY_DUP_INFO: Final = "DUP_INFO"
PROPERTY_CHECK_IMMUNITY_TIME: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
PROPERTY_TRANSACTION_PREPARED_QUEUE_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"
PROPERTY_TRANSACTION_ID: Final = "__transactionId__"
PROPERTY_TRANSACTION_CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
PROPERTY_INSTANCE_ID: Final = "INSTANCE_ID"
PROPERTY_CORRELATION_ID: Final = "CORRELATION_ID"
PROPERTY_REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
PROPERTY_TTL: Final = "TTL"
PROPERTY_ARRIVE_TIME: Final = "ARRIVE_TIME"
PROPERTY_PUSH_REPLY_TIME: Final = "PUSH_REPLY_TIME"
PROPERTY_CLUSTER: Final = "CLUSTER"
PROPERTY_MESSAGE_TYPE: Final = "MSG_TYPE"
PROPERTY_POP_CK: Final = "POP_CK"
PROPERTY_POP_CK_OFFSET: Final = "POP_CK_OFFSET"
PROPERTY_FIRST_POP_TIME: Final = "1ST_POP_TIME"
PROPERTY_SHARDING_KEY: Final = "__SHARDINGKEY"
PROPERTY_FORWARD_QUEUE_ID: Final = "PROPERTY_FORWARD_QUEUE_ID"
PROPERTY_REDIRECT: Final = "REDIRECT"
PROPERTY_INNER_MULTI_DISPATCH: Final = "INNER_MULTI_DISPATCH"
PROPERTY_INNER_MULTI_QUEUE_OFFSET: Final = "INNER_MULTI_QUEUE_OFFSET"
PROPERTY_TRACE_CONTEXT: Final = "TRACE_CONTEXT"
PROPERTY_TIMER_DELAY_SEC: Final = "TIMER_DELAY_SEC"
PROPERTY_TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
PROPERTY_TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
PROPERTY_TIMER_ENQUEUE_MS: Final = "TIMER_ENQUEUE_MS"
PROPERTY_TIMER_DEQUEUE_MS: Final = "TIMER_DEQUEUE_MS"
PROPERTY_TIMER_ROLL_TIMES: Final = "TIMER_ROLL_TIMES"
PROPERTY_TIMER_OUT_MS: Final = "TIMER_OUT_MS"
PROPERTY_TIMER_DEL_UNIQKEY: Final = "TIMER_DEL_UNIQKEY"
PROPERTY_TIMER_DELAY_LEVEL: Final = "TIMER_DELAY_LEVEL"
PROPERTY_BORN_HOST: Final = "__BORNHOST"
PROPERTY_BORN_TIMESTAMP: Final = "BORN_TIMESTAMP"
PROPERTY_CRC32: Final = "__CRC32#"
PROPERTY_DLQ_ORIGIN_TOPIC: Final = "DLQ_ORIGIN_TOPIC"
PROPERTY_DLQ_ORIGIN_MESSAGE_ID: Final = "DLQ_ORIGIN_MESSAGE_ID"

# MessageConst.STRING_HASH_SET and what 5.x added: a user sets these through named arguments only.
RESERVED_PROPERTIES: Final[frozenset[str]] = frozenset(
    value
    for name, value in list(globals().items())
    if name.startswith("PROPERTY_") and isinstance(value, str)
)

# The names a broker acts on when a message is sent.  A message with one of them goes the long way
# through the ordinary handler; every other property is stored as it comes.
BROKER_PROPERTIES: Final = (
    PROPERTY_DELAY,
    PROPERTY_TRANSACTION_PREPARED,
    PROPERTY_POP_CK,
    PROPERTY_CLUSTER,
    PROPERTY_MSG_REGION,
    PROPERTY_TRACE_SWITCH,
    PROPERTY_INNER_NUM,
    PROPERTY_INNER_MULTI_DISPATCH,
    PROPERTY_INNER_MULTI_QUEUE_OFFSET,
    PROPERTY_TIMER_DELAY_SEC,
    PROPERTY_TIMER_DELAY_MS,
    PROPERTY_TIMER_DELIVER_MS,
    PROPERTY_TIMER_DEL_UNIQKEY,
)


def encode_properties(
    properties: Mapping[str, str | None], *, last_separator: bool = True
) -> bytes:
    """Join properties in their order; ``None`` values are left out.

    ``last_separator=False`` writes 4.9's form.  Names and values are not checked for separators:
    ``find_illegal_property`` does that, once, where a user hands them in.
    """
    pairs = [f"{name}\x01{value}" for name, value in properties.items() if value is not None]
    if pairs and last_separator:
        pairs.append("")
    return "\x02".join(pairs).encode("utf-8", "replace")


def decode_properties(data: bytes | bytearray | memoryview) -> dict[str, str]:
    """Split a stored property string; damaged pairs are dropped, the last of equal names wins."""
    return decode_properties_text(str(data, "utf-8", "replace"))


def decode_properties_text(text: str) -> dict[str, str]:
    """``decode_properties`` for a string that came in a header field."""
    properties: dict[str, str] = {}
    for pair in text.split(PAIR_SEPARATOR):
        name, _, value = pair.partition(NAME_SEPARATOR)
        if name and value:
            properties[name] = value
    return properties


def is_waiting(properties: Mapping[str, str]) -> bool:
    """Whether the sender of a message waits until the disk has it."""
    return properties.get(PROPERTY_WAIT) != "false"


def find_illegal_property(properties: Mapping[str, str]) -> str | None:
    """The first name that cannot be stored (empty, or a separator in name or value), if any."""
    for name, value in properties.items():
        if not name or any(mark in text for text in (name, value) for mark in ("\x01", "\x02")):
            return name
    return None


def join_keys(keys: Iterable[str]) -> str:
    """The KEYS value of several keys."""
    return KEY_SEPARATOR.join(keys)


def split_keys(keys: str) -> list[str]:
    """The keys a KEYS value holds; runs of separators count once."""
    return [key for key in keys.split(KEY_SEPARATOR) if key]
