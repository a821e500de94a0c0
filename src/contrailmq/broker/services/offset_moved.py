"""Offset-moved events: a consumer asked for what its queue does not hold.

Such a pull is answered with the offset to go on from, and noted as a message in the topic
OFFSET_MOVED_EVENT, where tools find it (the 4.9 broker's OffsetMovedEvent).  A consumer that asks
the same again is noted once.
"""

from __future__ import annotations

import logging
from typing import Final

from contrailmq.broker.identity import Identity
from contrailmq.broker.services.putting import Putting
from contrailmq.broker.tables.topics import TopicTable
from contrailmq.clock import Clock
from contrailmq.errors import BrokerError
from contrailmq.net.noise import Noise
from contrailmq.protocol.fastjson import dumps
from contrailmq.protocol.names import OFFSET_MOVED_EVENT
from contrailmq.protocol.properties import (
    PROPERTY_KEYS,
    PROPERTY_TAGS,
    encode_properties,
)
from contrailmq.protocol.queue import MessageQueue
from contrailmq.store.types import NewMessage

log = logging.getLogger(__name__)

NOTED_MAX: Final = 10_000


class OffsetMovedEvents:
    """Notes each move of a group in a queue once."""

    def __init__(
        self, putting: Putting, topics: TopicTable, identity: Identity, *, clock: Clock
    ) -> None:
        self._putting = putting
        self._topics = topics
        self._identity = identity
        self._clock = clock
        self._noise = Noise(clock)  # a line per topic and ten seconds
        self._noted: dict[tuple[str, str, int], tuple[int, int]] = {}

    def __call__(
        self, group: str, topic: str, queue_id: int, *, requested: int, moved_to: int
    ) -> None:
        """A pull of ``requested`` was sent on to ``moved_to``."""
        place = (group, topic, queue_id)
        if self._noted.get(place) == (requested, moved_to) or not self._identity.is_master:
            return
        if len(self._noted) >= NOTED_MAX:
            self._noted.clear()
        self._noted[place] = (requested, moved_to)
        similar = self._noise.held_back(topic)
        if similar is not None:
            log.warning(
                "offset moved: group=%s topic=%s queue=%s requested=%s moved_to=%s not_shown=%s",
                group, topic, queue_id, requested, moved_to, similar,
            )  # fmt: skip
        if self._topics.find(OFFSET_MOVED_EVENT) is None:
            return
        event = {
            "consumerGroup": group,
            "messageQueue": MessageQueue(topic, self._identity.broker_name, queue_id),
            "offsetNew": moved_to,
            "offsetRequest": requested,
        }
        host = self._identity.store_host
        message = NewMessage(
            OFFSET_MOVED_EVENT,
            0,
            dumps(event),
            encode_properties({PROPERTY_TAGS: group, PROPERTY_KEYS: group}),
            born_ms=self._clock.now_ms(),
            born_host=host,
            store_host=host,
            wait=False,
        )
        try:
            self._putting.put(message)
        except BrokerError as error:
            log.warning("offset-moved event not stored: error=%s", error)
