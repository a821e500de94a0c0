"""The brokers behind the gRPC calls, where they are one: this broker, in its own process."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import cast

from contrailmq.broker.config.live_settings import LiveSettings
from contrailmq.broker.grpc.link import GrpcLink
from contrailmq.broker.grpc.receiving import GrpcReceiving
from contrailmq.broker.grpc.routes import GrpcRoutes
from contrailmq.broker.grpc.sending import GrpcSending
from contrailmq.broker.handlers.client import Clients
from contrailmq.broker.handlers.transaction import COMMIT, ROLLBACK, UNKNOWN
from contrailmq.broker.tables.consumers import Membership
from contrailmq.broker.tables.groups import GroupTable
from contrailmq.errors import IllegalOperation, error_of
from contrailmq.grpc.backend import PopAnswer, PopRequest, Sent, Soon, awaited
from contrailmq.grpc.clients import Client
from contrailmq.grpc.converting import Outgoing, ReceiptHandle, TransactionPlace
from contrailmq.grpc.settling import filter_of
from contrailmq.net.connection import Connection
from contrailmq.net.dispatch import Handler
from contrailmq.protocol.bodies.group import SubscriptionGroupConfig
from contrailmq.protocol.bodies.heartbeat import SubscriptionData
from contrailmq.protocol.bodies.route import TopicRouteData
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.filter.tags import build_subscription
from contrailmq.protocol.header import RpcRequest
from contrailmq.protocol.headers.send import ConsumerSendMsgBackRequest, RecallMessageRequest
from contrailmq.protocol.headers.transaction import EndTransactionRequest
from contrailmq.protocol.pop import real_topic
from contrailmq.protocol.versions import V5_0_0

PUSH = "CONSUME_PASSIVELY"
SIMPLE = "CONSUME_ACTIVELY"


class _Caller:
    """What handlers of rare requests look at of a connection."""

    def __init__(self, host: bytes) -> None:
        self.peer = "gRPC"
        self.peer_host = host


class LocalBroker:
    """One broker as the gRPC calls see it."""

    def __init__(
        self,
        sending: GrpcSending,
        receiving: GrpcReceiving,
        routes: GrpcRoutes,
        *,
        clients: Clients,
        groups: GroupTable,
        handlers: Mapping[int, Handler],
        live: LiveSettings,
        store_host: bytes,
    ) -> None:
        self._sending = sending
        self._receiving = receiving
        self._routes = routes
        self._clients = clients
        self._groups = groups
        self._handlers = handlers
        self._live = live
        # The remoting handlers of 36, 37 and 370 ask a connection for its address only.
        self._caller = cast(Connection, _Caller(store_host))

    def route(self, topic: str) -> Soon[TopicRouteData]:
        """Where a topic is."""
        return self._routes.route(topic)

    def message_type(self, topic: str) -> str:
        """The kind of messages a topic takes."""
        return self._sending.message_type(topic)

    def find_group(self, group: str) -> SubscriptionGroupConfig | None:
        """A group's configuration."""
        return self._groups.find(group)

    def send(self, topic: str, messages: Sequence[Outgoing], *, peer: str) -> Soon[list[Sent]]:
        """Store messages in one queue."""
        return self._sending.send(topic, messages, peer=peer)

    async def pop(self, request: PopRequest) -> PopAnswer:
        """Give out messages."""
        return await self._receiving.pop(request)

    def give_back(self, group: str, topic: str, receipts: Sequence[ReceiptHandle]) -> None:
        """Make messages visible again in a second."""
        self._receiving.give_back(group, topic, receipts)

    def ack(self, group: str, topic: str, receipt: ReceiptHandle) -> Soon[None]:
        """Settle a message."""
        return self._receiving.ack(group, topic, receipt)

    def change(
        self, group: str, topic: str, receipt: ReceiptHandle, *, invisible_ms: int
    ) -> ReceiptHandle:
        """Hide a message for another while."""
        return self._receiving.change(group, topic, receipt, invisible_ms=invisible_ms)

    async def bury(
        self, group: str, topic: str, receipt: ReceiptHandle, *, message_id: str
    ) -> None:
        """Put a message to the dead letters, and settle it."""
        header = ConsumerSendMsgBackRequest(
            offset=receipt.log_offset or 0,
            group=group,
            delay_level=-1,
            origin_msg_id=message_id,
            origin_topic=real_topic(topic, group, receipt.handle.flag),
            max_reconsume_times=0,
        )
        await self._ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)
        await awaited(self._receiving.ack(group, topic, receipt))

    async def end_transaction(
        self, topic: str, place: TransactionPlace, *, commit: bool | None, is_check: bool
    ) -> None:
        """Commit, roll back, or leave open."""
        kind = UNKNOWN if commit is None else COMMIT if commit else ROLLBACK
        header = EndTransactionRequest(
            topic=topic,
            producer_group=topic,
            tran_state_table_offset=place.queue_offset,
            commit_log_offset=place.log_offset,
            commit_or_rollback=kind,
            from_transaction_check=is_check,
            msg_id=place.unique_key,
            transaction_id=place.unique_key,
        )
        try:
            await self._ask(RequestCode.END_TRANSACTION, header)
        except IllegalOperation:
            return  # too late for the client's own limit: a check ends it

    async def recall(self, topic: str, handle: str) -> str:
        """Take back a delayed message."""
        header = RecallMessageRequest(topic=topic, recall_handle=handle, producer_group=topic)
        answer = await self._ask(RequestCode.RECALL_MESSAGE, header)
        return answer.fields.get("msgId", "") if answer is not None else ""

    def register(self, client: Client) -> None:
        """Note a client among producers or consumers."""
        link = client.link
        if not isinstance(link, GrpcLink):
            link = client.link = GrpcLink(client)
            self._clients.watch(link)
        if client.is_producer:
            for topic in client.topics():
                self._clients.producers.register(
                    link, client.client_id, topic, language=client.language, version=V5_0_0
                )
            return
        name = client.group()
        auto_create = self._live.now.auto_create_group
        if self._groups.find_or_create(name, auto_create=auto_create) is None:
            return
        membership = Membership(
            group=name,
            consume_type=PUSH if client.is_push else SIMPLE,
            message_model="CLUSTERING",
            consume_from_where="CONSUME_FROM_LAST_OFFSET",
            subscriptions=_subscriptions(client),
        )
        has_changed = self._clients.consumers.register(
            link, client.client_id, membership, language=client.language, version=V5_0_0
        )
        if has_changed:
            self._clients.announce(name)

    def unregister(self, client: Client) -> None:
        """Forget a client."""
        link, client.link = client.link, None
        if isinstance(link, GrpcLink):
            link.close("the client is gone")

    async def _ask(self, code: RequestCode, header: RpcRequest) -> Command | None:
        """Have the handler of a remoting request do its work; raises its refusal."""
        request = Command.request(code, header)
        answer = self._handlers[code](request, self._caller)
        if isinstance(answer, Awaitable):
            answer = await answer
        if answer is not None and answer.code != 0:
            raise error_of(answer.code, answer.remark)
        return answer


def _subscriptions(client: Client) -> list[SubscriptionData]:
    subscription = client.settings.subscription
    found = []
    for entry in subscription.subscriptions if subscription is not None else ():
        kind, text = filter_of(entry.expression)
        topic = entry.topic.name if entry.topic is not None else ""
        found.append(
            build_subscription(topic, text, expression_type=kind, version_ms=client.settled_ms)
        )
    return found
