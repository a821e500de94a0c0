"""Request code to handler: what clients ask of a broker.

Administration, retries, delays, transactions and POP have tables of their own; a code in none of
them is answered with REQUEST_CODE_NOT_SUPPORTED.
"""

from __future__ import annotations

from typing import Final

from contrailmq.broker.handlers.client import (
    CheckClientConfig,
    GetConsumerList,
    Heartbeat,
    UnregisterClient,
)
from contrailmq.broker.handlers.lock import LockQueues, UnlockQueues
from contrailmq.broker.handlers.offset import (
    GetEarliestStoreTime,
    GetMaxOffset,
    GetMinOffset,
    QueryConsumerOffset,
    SearchOffset,
    UpdateConsumerOffset,
)
from contrailmq.broker.handlers.query import QueryMessage, ViewMessage
from contrailmq.broker.parts import Parts
from contrailmq.net.dispatch import Handler
from contrailmq.net.settings import Lane
from contrailmq.protocol.codes import RequestCode

SEND_CODES: Final = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.CONSUMER_SEND_MSG_BACK,
    RequestCode.END_TRANSACTION,
    RequestCode.SEND_REPLY_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE_V2,
    RequestCode.RECALL_MESSAGE,
)
PULL_CODES: Final = (
    RequestCode.PULL_MESSAGE,
    RequestCode.LITE_PULL_MESSAGE,
    RequestCode.POP_MESSAGE,
    RequestCode.PEEK_MESSAGE,
    RequestCode.NOTIFICATION,
)
LANES: Final = {
    **{int(code): Lane.SEND for code in SEND_CODES},
    **{int(code): Lane.PULL for code in PULL_CODES},
}


def client_handlers(parts: Parts) -> dict[int, Handler]:
    """The handlers of everything producers and consumers need for regular messages."""
    tables, store = parts.tables, parts.store
    return {
        RequestCode.SEND_MESSAGE: parts.send,
        RequestCode.SEND_MESSAGE_V2: parts.send,
        RequestCode.SEND_BATCH_MESSAGE: parts.send,
        RequestCode.PULL_MESSAGE: parts.pull,
        RequestCode.LITE_PULL_MESSAGE: parts.pull,
        RequestCode.QUERY_CONSUMER_OFFSET: QueryConsumerOffset(
            tables.offsets, tables.topics, store.reading
        ),
        RequestCode.UPDATE_CONSUMER_OFFSET: UpdateConsumerOffset(
            tables.offsets, tables.topics, tables.groups, live=tables.live
        ),
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: SearchOffset(store),
        RequestCode.GET_MAX_OFFSET: GetMaxOffset(store),
        RequestCode.GET_MIN_OFFSET: GetMinOffset(store),
        RequestCode.GET_EARLIEST_MSG_STORETIME: GetEarliestStoreTime(store),
        RequestCode.HEART_BEAT: Heartbeat(
            parts.clients,
            tables.topics,
            tables.groups,
            filters=parts.filter_work,
            live=tables.live,
        ),
        RequestCode.UNREGISTER_CLIENT: UnregisterClient(parts.clients),
        RequestCode.CHECK_CLIENT_CONFIG: CheckClientConfig(tables.filters, tables.live),
        RequestCode.GET_CONSUMER_LIST_BY_GROUP: GetConsumerList(tables.consumers),
        RequestCode.LOCK_BATCH_MQ: LockQueues(tables.locks),
        RequestCode.UNLOCK_BATCH_MQ: UnlockQueues(tables.locks),
        RequestCode.QUERY_MESSAGE: QueryMessage(store),
        RequestCode.VIEW_MESSAGE_BY_ID: ViewMessage(store),
    }
