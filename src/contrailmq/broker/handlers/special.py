"""Request code to handler: retries, transactions and answers between clients."""

from __future__ import annotations

from contrailmq.broker.handlers.reply import SendReply
from contrailmq.broker.handlers.retry import SendMessageBack
from contrailmq.broker.handlers.transaction import EndTransaction
from contrailmq.broker.parts import Parts
from contrailmq.net.dispatch import Handler
from contrailmq.protocol.codes import RequestCode


def special_handlers(parts: Parts) -> dict[int, Handler]:
    """The handlers of messages that are not simply stored."""
    tables = parts.tables
    reply = SendReply(
        parts.putting,
        tables.topics,
        tables.producers,
        live=tables.live,
        identity=parts.identity,
        clock=parts.clock,
        answer_fields=parts.send.answer_fields,
    )
    return {
        RequestCode.CONSUMER_SEND_MSG_BACK: SendMessageBack(
            parts.store,
            parts.putting,
            tables.topics,
            groups=tables.groups,
            live=tables.live,
            identity=parts.identity,
            counters=tables.counters,
            rng=parts.rng,
        ),
        RequestCode.END_TRANSACTION: EndTransaction(
            parts.halves, identity=parts.identity, clock=parts.clock
        ),
        RequestCode.SEND_REPLY_MESSAGE: reply,
        RequestCode.SEND_REPLY_MESSAGE_V2: reply,
    }
