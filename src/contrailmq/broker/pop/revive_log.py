"""Checkpoints and acknowledgements on their way into the revive topic.

Each is a timer message: it lies in the timer topic until its time and is then delivered into its
revive queue, a checkpoint one second before its messages become visible, an acknowledgement at
that moment.  So a checkpoint is always read before its acknowledgements, however long the
messages were hidden, and a revive queue holds only what is about to be decided.  What is late
already goes straight into its revive queue.  Records are those of the original byte for byte,
properties in another order (PopMessageProcessor.buildCkMsg, AckMessageProcessor).
"""

from __future__ import annotations

from typing import Final

from contrailmq.broker.identity import Identity
from contrailmq.broker.pop.timers import PopTimers
from contrailmq.broker.services.putting import Putting
from contrailmq.broker.tables.revive_tally import ReviveTally
from contrailmq.clock import Clock
from contrailmq.protocol.names import TIMER_TOPIC, revive_topic
from contrailmq.protocol.pop import (
    ACK_TAG,
    BATCH_ACK_TAG,
    CHECKPOINT_TAG,
    Ack,
    CheckPoint,
    encode_body,
)
from contrailmq.store.types import Appended, NewMessage

ACK_INTERVAL_MS: Final = 1000  # PopAckConstants.ackTimeInterval


class ReviveLog:
    """Writes what the revive service will read."""

    def __init__(
        self, putting: Putting, timers: PopTimers, *,
        identity: Identity, tally: ReviveTally, clock: Clock,
    ) -> None:  # fmt: skip
        self._tally = tally
        self._putting = putting
        self._timers = timers
        self._identity = identity
        self._clock = clock
        self.topic = revive_topic(identity.cluster_name)

    def put_check_point(self, check_point: CheckPoint, revive_queue: int) -> Appended:
        """Write down what a pop gave out; raises the store's refusal."""
        appended = self._put(
            encode_body(check_point),
            CHECKPOINT_TAG,
            check_point.unique_key(),
            queue_id=revive_queue,
            deliver_ms=check_point.due_ms - ACK_INTERVAL_MS,
        )
        self._tally.written[check_point.group, check_point.topic, "CK"] += 1
        return appended

    def put_ack(self, ack: Ack, revive_queue: int, *, due_ms: int) -> Appended:
        """Write down what is settled; raises the store's refusal."""
        appended = self._put(
            encode_body(ack),
            ACK_TAG if ack.offsets is None else BATCH_ACK_TAG,
            ack.unique_key(),
            queue_id=revive_queue,
            deliver_ms=due_ms,
        )
        self._tally.written[ack.group, ack.topic, "ACK"] += 1
        return appended

    def _put(
        self, body: bytes, tag: str, unique_key: str, *, queue_id: int, deliver_ms: int
    ) -> Appended:
        now_ms = self._clock.now_ms()
        topic = self.topic
        text = f"TAGS\x01{tag}\x02TIMER_DELIVER_MS\x01{deliver_ms}\x02UNIQ_KEY\x01{unique_key}\x02"
        if deliver_ms > now_ms:
            self._timers.prepare()
            precision_ms = self._timers.precision_ms
            rest_ms = deliver_ms % precision_ms or precision_ms
            text += (
                f"TIMER_OUT_MS\x01{deliver_ms - rest_ms}\x02"
                f"REAL_TOPIC\x01{topic}\x02REAL_QID\x01{queue_id}\x02"
            )
            topic, queue_id = TIMER_TOPIC, 0
        host = self._identity.store_host
        return self._putting.put(
            NewMessage(
                topic,
                queue_id,
                body,
                text.encode(),
                born_ms=now_ms,
                born_host=host,
                store_host=host,
            )
        )
