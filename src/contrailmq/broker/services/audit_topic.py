"""Audit entries as messages of the topic ``rmq_sys_audit``, for whoever reads them with Spark."""

from __future__ import annotations

import logging

from contrailmq.broker.identity import Identity
from contrailmq.broker.services.putting import Putting
from contrailmq.broker.tables.topics import READ_WRITE, TopicTable
from contrailmq.clock import Clock
from contrailmq.errors import BrokerError, StoreError
from contrailmq.protocol.names import AUDIT_TOPIC
from contrailmq.protocol.properties import PROPERTY_TAGS, encode_properties
from contrailmq.store.types import NewMessage

log = logging.getLogger(__name__)


class AuditTopic:
    """Puts each entry into the topic, which it makes."""

    def __init__(
        self, putting: Putting, topics: TopicTable, identity: Identity, *, clock: Clock
    ) -> None:
        topics.create_internal(AUDIT_TOPIC, queue_nums=1, perm=READ_WRITE)
        self._putting = putting
        self._identity = identity
        self._clock = clock

    def __call__(self, entry: bytes) -> None:
        """Store one entry."""
        if not self._identity.is_master:
            return
        host = self._identity.store_host
        message = NewMessage(
            AUDIT_TOPIC,
            0,
            entry,
            encode_properties({PROPERTY_TAGS: "audit"}),
            born_ms=self._clock.now_ms(),
            born_host=host,
            store_host=host,
            wait=False,
        )
        try:
            self._putting.put(message)
        except (BrokerError, StoreError) as error:
            log.warning("audit entry not stored: error=%s", error)
