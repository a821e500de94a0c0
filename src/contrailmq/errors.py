"""Every error this package raises on purpose.

The tree says who is at fault and what to do about it.  ``BrokerError`` and its subclasses are
raised by a handler on the server and raised again, after the wire, in the client: one class per
response code that somebody branches on (``error_of`` maps codes to classes).
"""

from __future__ import annotations

from typing import ClassVar


class ContrailError(Exception):
    """Base of all errors raised on purpose; anything else that escapes is a bug."""


class ProtocolError(ContrailError):
    """Bytes or fields break the remoting protocol."""


class LocalProtocolError(ProtocolError):
    """We, or our caller, tried to send something illegal."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something illegal; its connection must be closed."""


class NetworkError(ContrailError):
    """A peer could not be reached, or was lost; trying again may help."""


class ConnectFailed(NetworkError):
    """No connection could be made to an address."""


class ConnectionLost(NetworkError):
    """The connection ended while an answer was awaited; the request may have been carried out."""


class RequestTimeout(NetworkError):
    """No answer came in time; the request may have been carried out."""


class TooManyRequests(NetworkError):
    """A bound of ours on requests or bytes in flight is reached; wait and try again."""


class StoreError(ContrailError):
    """The store cannot do what was asked."""


class CorruptRecord(StoreError):
    """Bytes on disk are not what was written there."""

    def __init__(self, text: str, *, offset: int = -1) -> None:
        super().__init__(text)
        self.offset = offset


class StoreRefusal(StoreError):
    """A message breaks a limit of the store; nothing of it was written."""


class MessageTooLarge(StoreRefusal):
    """One record is larger than the store accepts."""


class DiskFull(StoreError):
    """There is no room for the log; the text names the disk and its numbers."""


class StoreClosed(StoreError):
    """The store has stopped, or is fenced after a failed fsync; nothing more becomes durable."""


class StoreLocked(StoreError):
    """Another process has this store directory open for writing."""


class ConfigError(ContrailError):
    """A configuration value cannot be used."""


class FilterError(ContrailError):
    """A filter expression cannot be used; ``position`` counts its characters, -1 if unknown."""

    def __init__(self, text: str, *, position: int = -1) -> None:
        super().__init__(text)
        self.position = position


class ClientError(ContrailError):
    """The client was used in a way that cannot work; the text says what to do."""


class UsageError(ClientError):
    """A command line that cannot be carried out as it stands: exit code 2."""


class NoRoute(ClientError):
    """No name server knows where a topic lives."""


class BrokerError(ContrailError):
    """A response code other than SUCCESS: raised by handlers, raised again in clients."""

    code: int = 1
    retryable: ClassVar[bool] = False
    refresh_route: ClassVar[bool] = False

    def __init__(self, remark: str, *, code: int | None = None) -> None:
        super().__init__(remark)
        self.remark = remark
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return f"{self.remark} (code {self.code})"


class SystemFailure(BrokerError):
    """The peer failed in a way it has no better code for."""

    code = 1
    retryable = True


class SystemBusy(BrokerError):
    """The peer refuses for now: a bound was hit, and the remark says which."""

    code = 2
    retryable = True


class CodeNotSupported(BrokerError):
    """The peer does not know this request code."""

    code = 3


class FlushDiskTimeout(BrokerError):
    """Stored, but the disk was not certain in time."""

    code = 10


class SlaveNotAvailable(BrokerError):
    """Stored, but no good replica was there; or a write was sent to a replica."""

    code = 11


class FlushSlaveTimeout(BrokerError):
    """Stored, but no replica confirmed in time."""

    code = 12


class IllegalMessage(BrokerError):
    """The message itself cannot be accepted: size, properties, batch rules."""

    code = 13


class ServiceNotAvailable(BrokerError):
    """The store takes no writes now: starting, stopping, a replica, or its disk is full."""

    code = 14
    retryable = True
    refresh_route = True


class NoPermission(BrokerError):
    """Broker, topic or group permission, or a feature that is off."""

    code = 16
    retryable = True
    refresh_route = True


class TopicNotExist(BrokerError):
    """The peer does not have this topic."""

    code = 17
    retryable = True
    refresh_route = True


class PullNotFound(BrokerError):
    """There is nothing at this offset yet."""

    code = 19


class PullOffsetMoved(BrokerError):
    """The offset asked for is outside the queue."""

    code = 21


class QueryNotFound(BrokerError):
    """The peer holds no such offset, message, key or group."""

    code = 22


class SubscriptionParseFailed(BrokerError):
    """A subscription expression does not parse."""

    code = 23


class SubscriptionNotExist(BrokerError):
    """The consumer is not registered, or does not subscribe to this topic."""

    code = 24


class SubscriptionNotLatest(BrokerError):
    """The broker has an older subscription of this consumer; heartbeat and try again."""

    code = 25
    retryable = True


class SubscriptionGroupNotExist(BrokerError):
    """The group does not exist and is not created automatically."""

    code = 26


class FilterDataNotExist(BrokerError):
    """The broker has no compiled filter of this consumer yet; heartbeat and try again."""

    code = 27
    retryable = True


class FilterDataNotLatest(BrokerError):
    """The broker has an older filter of this consumer; heartbeat and try again."""

    code = 28
    retryable = True


class InvalidParameter(BrokerError):
    """A request field has a value the peer cannot accept."""

    code = 29


class ConsumerNotOnline(BrokerError):
    """No consumer of this group is connected."""

    code = 206


class ConsumeTimeout(BrokerError):
    """A client the broker asked did not answer in time."""

    code = 207


class NoMessage(BrokerError):
    """There is no such message: its offset lies outside its queue."""

    code = 208


class PollingTimeout(BrokerError):
    """Nothing came while a pop waited, or the pop itself came too late."""

    code = 210


class IllegalOperation(BrokerError):
    """The operation does not fit the state of the thing it is for."""

    code = 604


_BY_CODE: dict[int, type[BrokerError]] = {cls.code: cls for cls in BrokerError.__subclasses__()}


def error_of(code: int, remark: str | None) -> BrokerError:
    """The error a response code stands for."""
    cls = _BY_CODE.get(code)
    text = remark or "the peer gave no reason"
    return cls(text) if cls else BrokerError(text, code=code)
