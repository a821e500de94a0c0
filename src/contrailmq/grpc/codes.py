"""How calls end: the codes of ``Status``, refusals, and what a broker's refusal becomes.

Every answer is a gRPC success with a status field; only telemetry, access control and unknown
methods use gRPC's own codes.
"""

from __future__ import annotations

import enum
from typing import Final

from contrailmq.errors import (
    BrokerError,
    ContrailError,
    NetworkError,
    NoRoute,
    RemoteProtocolError,
    RequestTimeout,
)
from contrailmq.grpc.messages import Status
from contrailmq.protocol.codes import ResponseCode


class Code(enum.IntEnum):
    """``Code`` of the service's definition."""

    OK = 20000
    MULTIPLE_RESULTS = 30000
    BAD_REQUEST = 40000
    ILLEGAL_TOPIC = 40002
    ILLEGAL_CONSUMER_GROUP = 40003
    ILLEGAL_MESSAGE_TAG = 40004
    ILLEGAL_MESSAGE_KEY = 40005
    ILLEGAL_MESSAGE_GROUP = 40006
    ILLEGAL_MESSAGE_PROPERTY_KEY = 40007
    INVALID_TRANSACTION_ID = 40008
    ILLEGAL_MESSAGE_ID = 40009
    ILLEGAL_FILTER_EXPRESSION = 40010
    ILLEGAL_INVISIBLE_TIME = 40011
    ILLEGAL_DELIVERY_TIME = 40012
    INVALID_RECEIPT_HANDLE = 40013
    MESSAGE_PROPERTY_CONFLICT_WITH_TYPE = 40014
    UNRECOGNIZED_CLIENT_TYPE = 40015
    MESSAGE_CORRUPTED = 40016
    CLIENT_ID_REQUIRED = 40017
    ILLEGAL_POLLING_TIME = 40018
    UNAUTHORIZED = 40100
    FORBIDDEN = 40300
    MESSAGE_NOT_FOUND = 40401
    TOPIC_NOT_FOUND = 40402
    CONSUMER_GROUP_NOT_FOUND = 40403
    MESSAGE_BODY_TOO_LARGE = 41301
    MESSAGE_BODY_EMPTY = 41302
    TOO_MANY_REQUESTS = 42900
    MESSAGE_PROPERTIES_TOO_LARGE = 43101
    INTERNAL_SERVER_ERROR = 50001
    HA_NOT_AVAILABLE = 50002
    NOT_IMPLEMENTED = 50100
    PROXY_TIMEOUT = 50400
    MASTER_PERSISTENCE_TIMEOUT = 50401
    SLAVE_PERSISTENCE_TIMEOUT = 50402
    FAILED_TO_CONSUME_MESSAGE = 60000


class Refusal(ContrailError):
    """A call that is answered with a status other than OK."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


_OF_BROKER: Final[dict[int, Code]] = {
    ResponseCode.TOPIC_NOT_EXIST: Code.TOPIC_NOT_FOUND,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: Code.CONSUMER_GROUP_NOT_FOUND,
    ResponseCode.SYSTEM_BUSY: Code.TOO_MANY_REQUESTS,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: Code.NOT_IMPLEMENTED,
    ResponseCode.FLUSH_DISK_TIMEOUT: Code.MASTER_PERSISTENCE_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: Code.SLAVE_PERSISTENCE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: Code.HA_NOT_AVAILABLE,
    ResponseCode.POLLING_FULL: Code.TOO_MANY_REQUESTS,
}


def ok() -> Status:
    """The status of success."""
    return Status(Code.OK, "OK")


def status_of(error: ContrailError) -> Status:
    """The status a refusal becomes."""
    if isinstance(error, Refusal):
        return Status(error.code, error.text)
    if isinstance(error, BrokerError):
        code = _OF_BROKER.get(error.code, Code.INTERNAL_SERVER_ERROR)
        return Status(code, error.remark)
    if isinstance(error, NoRoute):
        return Status(Code.TOPIC_NOT_FOUND, str(error))
    if isinstance(error, RequestTimeout):
        return Status(Code.PROXY_TIMEOUT, str(error))
    if isinstance(error, NetworkError | RemoteProtocolError):
        return Status(Code.INTERNAL_SERVER_ERROR, str(error))
    return Status(Code.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}")
