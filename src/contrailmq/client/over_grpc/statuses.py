"""How a gRPC service says no, in the codes that the client's errors are made of."""

from __future__ import annotations

from typing import Final

from contrailmq.errors import ConnectionLost, ContrailError, RequestTimeout, error_of
from contrailmq.grpc.call import GrpcError, GrpcStatus
from contrailmq.grpc.codes import Code
from contrailmq.grpc.messages import Status
from contrailmq.protocol.codes import ResponseCode

_CODES: Final[dict[int, ResponseCode]] = {
    Code.TOPIC_NOT_FOUND: ResponseCode.TOPIC_NOT_EXIST,
    Code.CONSUMER_GROUP_NOT_FOUND: ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    Code.TOO_MANY_REQUESTS: ResponseCode.SYSTEM_BUSY,
    Code.NOT_IMPLEMENTED: ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
    Code.UNAUTHORIZED: ResponseCode.NO_PERMISSION,
    Code.FORBIDDEN: ResponseCode.NO_PERMISSION,
    Code.MASTER_PERSISTENCE_TIMEOUT: ResponseCode.FLUSH_DISK_TIMEOUT,
    Code.SLAVE_PERSISTENCE_TIMEOUT: ResponseCode.FLUSH_SLAVE_TIMEOUT,
    Code.HA_NOT_AVAILABLE: ResponseCode.SLAVE_NOT_AVAILABLE,
    Code.MESSAGE_NOT_FOUND: ResponseCode.POLLING_TIMEOUT,
    Code.MESSAGE_BODY_TOO_LARGE: ResponseCode.MESSAGE_ILLEGAL,
    Code.MESSAGE_PROPERTIES_TOO_LARGE: ResponseCode.MESSAGE_ILLEGAL,
    Code.ILLEGAL_TOPIC: ResponseCode.INVALID_PARAMETER,
    Code.ILLEGAL_INVISIBLE_TIME: ResponseCode.INVALID_PARAMETER,
    Code.INVALID_RECEIPT_HANDLE: ResponseCode.INVALID_PARAMETER,
}
_MESSAGE_CODES: Final = range(40004, 40015)  # what is wrong with a message itself


def code_of(status: Status | None) -> int:
    """The response code that a status stands for; 0 for OK."""
    if status is None or status.code == Code.OK:
        return 0
    known = _CODES.get(status.code)
    if known is not None:
        return int(known)
    if status.code in _MESSAGE_CODES:
        return int(ResponseCode.MESSAGE_ILLEGAL)
    return int(ResponseCode.SYSTEM_ERROR)


def remark_of(status: Status | None) -> str:
    """What a status says, with its own code, which is finer than ours."""
    return "" if status is None else f"{status.message} (gRPC status {status.code})"


def error_of_call(error: GrpcError, address: str) -> ContrailError:
    """The error of a call that ended without an answer."""
    text = f"{address}: {error.text}"
    if error.status == GrpcStatus.DEADLINE_EXCEEDED:
        return RequestTimeout(text)
    if error.status == GrpcStatus.UNAVAILABLE:
        return ConnectionLost(text)
    if error.status in (GrpcStatus.PERMISSION_DENIED, GrpcStatus.UNAUTHENTICATED):
        return error_of(ResponseCode.NO_PERMISSION, text)
    if error.status == GrpcStatus.UNIMPLEMENTED:
        return error_of(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, text)
    return error_of(ResponseCode.SYSTEM_ERROR, f"{text} (gRPC {error.status.name})")
