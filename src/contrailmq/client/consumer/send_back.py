"""Messages to be consumed again: given back to the broker, which delivers them later.

First by request 36; if that fails, by sending a copy to the group's retry topic; if that fails too,
by trying the message here once more after a while.
"""

from __future__ import annotations

import logging
from typing import Final

from contrailmq.client.broker_calls import BrokerCalls
from contrailmq.client.message import ReceivedMessage, delay_level
from contrailmq.client.producer.outgoing import Outgoing
from contrailmq.client.producer.sender import Sender
from contrailmq.client.session import Session
from contrailmq.errors import ContrailError
from contrailmq.protocol import properties as names
from contrailmq.protocol.names import retry_topic

log = logging.getLogger(__name__)

RETRIES_MAX_CONCURRENT: Final = 16
_FIRST_LEVEL: Final = 3
_DEAD_LETTER: Final = -1


class SendBack:
    """Gives messages of one group back."""

    def __init__(
        self, session: Session, group: str, *, calls: BrokerCalls, sender: Sender, retries_max: int
    ) -> None:
        self._session = session
        self._group = group
        self._calls = calls
        self._sender = sender
        self.retries_max = retries_max if retries_max >= 0 else RETRIES_MAX_CONCURRENT

    async def give(
        self, message: ReceivedMessage, *, after_s: float | None = None, level: int | None = None
    ) -> bool:
        """Whether the broker has it, by one way or the other."""
        level = delay_level(after_s) if level is None else level
        try:
            await self._calls.send_back(
                self._address(message),
                offset=message.commit_log_offset,
                delay_level=level,
                retries_max=self.retries_max,
                message_id=message.message_id,
                topic=message.queue.topic,
            )
            return True
        except ContrailError as error:
            log.warning(
                "send-back failed, sending a copy id=%s error=%s", message.message_id, error
            )
        return await self.copy(message, level=level)

    async def bury(self, message: ReceivedMessage) -> bool:
        """Make a message a dead letter at once. Returns whether the broker did."""
        try:
            await self._calls.send_back(
                self._address(message),
                offset=message.commit_log_offset,
                delay_level=_DEAD_LETTER,
                retries_max=self.retries_max,
                message_id=message.offset_message_id,
                topic=message.queue.topic,
            )
            return True
        except ContrailError as error:
            log.warning("no dead letter was made of %r error=%s", message, error)
            return False

    async def copy(self, message: ReceivedMessage, *, level: int = 0) -> bool:
        """Send a copy to the retry topic; after too many times the broker buries it."""
        properties = dict(message.properties)
        properties.pop(names.PROPERTY_TRANSACTION_PREPARED, None)
        properties.setdefault(names.PROPERTY_RETRY_TOPIC, message.topic)
        properties.setdefault(names.PROPERTY_ORIGIN_MESSAGE_ID, message.message_id)
        properties[names.PROPERTY_DELAY] = str(level or _FIRST_LEVEL + message.reconsume_times)
        outgoing = Outgoing(
            topic=retry_topic(self._group),
            body=message.body,
            properties="".join(f"{name}\x01{value}\x02" for name, value in properties.items()),
            message_id=message.message_id,
            flag=message.flag,
            reconsume_times=message.reconsume_times + 1,
            retries_max=self.retries_max,
        )
        try:
            await self._sender.send(outgoing)
            return True
        except ContrailError as error:
            log.warning("copy for retry failed id=%s error=%s", message.message_id, error)
            return False

    def _address(self, message: ReceivedMessage) -> str:
        # The message may have come from a replica; only the primary can take it back.
        name = message.queue.broker_name
        return self._session.routes.find_master(name) or message.store_host
