"""What the calls need of the brokers behind them.

Two things implement it: the broker itself, in its own process, and ``contrail proxy``, which asks
brokers over remoting.  Refusals are the ``BrokerError`` of remoting, or a ``Refusal``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from contrailmq.grpc.clients import Client
from contrailmq.grpc.converting import Outgoing, ReceiptHandle, TransactionPlace
from contrailmq.grpc.messages import Status
from contrailmq.protocol.bodies.group import SubscriptionGroupConfig
from contrailmq.protocol.bodies.route import TopicRouteData
from contrailmq.protocol.message import Record

T = TypeVar("T")
Soon: TypeAlias = T | Awaitable[T]


class Sent(NamedTuple):
    """Where one message went; ``fault`` when disk or replicas are not certain of it."""

    queue_offset: int
    transaction_id: str
    recall_handle: str = ""
    fault: Status | None = None


@dataclass(slots=True, kw_only=True)
class PopRequest:
    """A receive as a broker sees it."""

    broker_name: str
    group: str
    topic: str
    count: int
    invisible_ms: int
    wait_ms: int
    order: bool = False
    attempt_id: str | None = None
    expression: str = "*"
    expression_type: str = "TAG"


class Taken(NamedTuple):
    """One message that was given out."""

    record: Record
    receipt: ReceiptHandle
    attempt: int


class PopAnswer(NamedTuple):
    """What a receive found; ``is_full``: too many receives wait already."""

    messages: list[Taken]
    is_full: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a call needs a permission for: publishing to a topic, or consuming."""

    topic: str = ""
    group: str = ""
    is_write: bool = False


class Access(Protocol):
    """Who may do what."""

    def check(self, metadata: Mapping[str, str], peer: str, needs: Sequence[Need]) -> None:
        """Raise ``GrpcError`` PERMISSION_DENIED unless the signer may do it."""
        ...


class Backend(Protocol):
    """The brokers."""

    def route(self, topic: str) -> Soon[TopicRouteData]:
        """Where a topic lives; raises TopicNotExist."""
        ...

    def message_type(self, topic: str) -> Soon[str]:
        """The topic's ``message.type``; NORMAL without one. Raises TopicNotExist."""
        ...

    def find_group(self, group: str) -> Soon[SubscriptionGroupConfig | None]:
        """A group's configuration; None if it does not exist."""
        ...

    def send(self, topic: str, messages: Sequence[Outgoing], *, peer: str) -> Soon[list[Sent]]:
        """Store messages in one queue of a topic."""
        ...

    async def pop(self, request: PopRequest) -> PopAnswer:
        """Give out messages, waiting for the first; what a cancelled caller misses goes back."""
        ...

    def give_back(self, group: str, topic: str, receipts: Sequence[ReceiptHandle]) -> None:
        """Make messages visible again in a second; does not wait, and does not fail."""
        ...

    def ack(self, group: str, topic: str, receipt: ReceiptHandle) -> Soon[None]:
        """Settle a message."""
        ...

    def change(
        self, group: str, topic: str, receipt: ReceiptHandle, *, invisible_ms: int
    ) -> Soon[ReceiptHandle]:
        """Hide a message for another while, from now."""
        ...

    def bury(
        self, group: str, topic: str, receipt: ReceiptHandle, *, message_id: str
    ) -> Soon[None]:
        """Put a message to the dead letters of a group, and settle it."""
        ...

    def end_transaction(
        self, topic: str, place: TransactionPlace, *, commit: bool | None, is_check: bool
    ) -> Soon[None]:
        """Commit, roll back, or leave open."""
        ...

    def recall(self, topic: str, handle: str) -> Soon[str]:
        """Take back a delayed message; its id."""
        ...

    def register(self, client: Client) -> None:
        """Note a client with its settings among producers or consumers; again and again."""
        ...

    def unregister(self, client: Client) -> None:
        """Forget a client."""
        ...


async def awaited(soon: Soon[T]) -> T:
    """Return a value that may have to be awaited."""
    return await soon if isinstance(soon, Awaitable) else soon
