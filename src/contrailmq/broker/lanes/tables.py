"""The tables the lanes look names up in, made from the declarations the handlers work with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from contrailmq._native import names
from contrailmq.protocol.header import Header
from contrailmq.protocol.headers.pull import PullMessageRequest
from contrailmq.protocol.headers.send import SendMessageRequestV2
from contrailmq.protocol.properties import (
    BROKER_PROPERTIES,
    PROPERTY_UNIQUE_KEY,
    PROPERTY_WAIT,
)


def _fields(header: type[Header], meanings: Mapping[str, int]) -> bytes:
    """Return the table of a header's fields; the keys of ``meanings`` are its attributes."""
    return names.pack({header.wire_name(field): code for field, code in meanings.items()})


SEND_FIELDS: Final = _fields(
    SendMessageRequestV2,
    {
        "producer_group": names.GROUP,
        "topic": names.TOPIC,
        "queue_id": names.QUEUE_ID,
        "sys_flag": names.SYS_FLAG,
        "born_timestamp": names.BORN_MS,
        "flag": names.FLAG,
        "properties": names.PROPERTIES,
        "reconsume_times": names.RECONSUME_TIMES,
        "unit_mode": names.UNIT_MODE,
        "batch": names.BATCH,
    },
)
PULL_FIELDS: Final = _fields(
    PullMessageRequest,
    {
        "consumer_group": names.GROUP,
        "topic": names.TOPIC,
        "queue_id": names.QUEUE_ID,
        "queue_offset": names.QUEUE_OFFSET,
        "max_msg_nums": names.COUNT,
        "sys_flag": names.SYS_FLAG,
        "commit_offset": names.COMMIT_OFFSET,
        "subscription": names.SUBSCRIPTION,
        "sub_version": names.SUB_VERSION,
        "expression_type": names.EXPRESSION_TYPE,
    },
)
SEND_PROPERTIES: Final = names.pack(
    {
        PROPERTY_UNIQUE_KEY: names.UNIQUE_KEY,
        PROPERTY_WAIT: names.WAIT,
        **dict.fromkeys(BROKER_PROPERTIES, names.ACTED_ON),
    }
)
