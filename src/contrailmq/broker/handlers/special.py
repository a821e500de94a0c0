"""Request code to handler: retries, transactions, timers and answers between clients."""

from __future__ import annotations

from contrailmq.broker.handlers.pop import AckMessages, PopMessages
from contrailmq.broker.handlers.reply import SendReply
from contrailmq.broker.handlers.retry import SendMessageBack
from contrailmq.broker.handlers.timer import RecallMessage, TimerViews
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
    timers = TimerViews(parts.wheel, lambda: parts.store.settings)
    return {
        RequestCode.GET_TIMER_CHECK_POINT: timers.checkpoint,
        RequestCode.GET_TIMER_METRICS: timers.metrics,
        RequestCode.RECALL_MESSAGE: RecallMessage(
            parts.putting,
            tables.topics,
            live=tables.live,
            settings=lambda: parts.store.settings,
            identity=parts.identity,
            clock=parts.clock,
            durable=parts.send.when_durable,
        ),
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
        **_pop_handlers(parts),
    }


def _pop_handlers(parts: Parts) -> dict[int, Handler]:
    service = parts.pop.service
    timers = parts.pop.timers
    pops = PopMessages(service, timers, identity=parts.identity, clock=parts.clock)
    acks = AckMessages(service, timers)
    return {
        RequestCode.POP_MESSAGE: pops.pop,
        RequestCode.PEEK_MESSAGE: pops.peek,
        RequestCode.NOTIFICATION: pops.notify,
        RequestCode.POLLING_INFO: pops.polling,
        RequestCode.ACK_MESSAGE: acks.ack,
        RequestCode.BATCH_ACK_MESSAGE: acks.ack_many,
        RequestCode.CHANGE_MESSAGE_INVISIBLETIME: acks.change,
    }
