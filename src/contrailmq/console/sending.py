"""Sending from the console: one message as typed, and messages again as they were."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

import msgspec

from contrailmq.client.message import Message
from contrailmq.client.producer.producer import Producer
from contrailmq.client.settings import ProducerSettings
from contrailmq.console.cluster import Place
from contrailmq.console.desk import Desk
from contrailmq.console.letters_api import origin_of, own_properties
from contrailmq.console.messages_api import at_place
from contrailmq.console.settings import BULK_MAX, CALL_S
from contrailmq.console.web import Refused
from contrailmq.errors import ContrailError
from contrailmq.protocol.names import is_send_forbidden, topic_fault

GROUP: Final = "contrail-console"


class SendOrder(msgspec.Struct, kw_only=True):
    """One message: a body as text, or as base64."""

    topic: str
    body: str = ""
    body_base64: str = ""
    tags: str = ""
    keys: str = ""
    properties: dict[str, str] = {}
    delay_s: float = 0.0
    sharding_key: str = ""


class Sending:
    """Makes a producer for each order: sends from a console are rare."""

    async def send(self, desk: Desk, order: SendOrder) -> dict[str, Any]:
        """Send one message; the result says where it is."""
        _check(order.topic)
        try:
            body = (
                base64.b64decode(order.body_base64, validate=True)
                if order.body_base64
                else order.body.encode("utf-8", "replace")
            )
        except binascii.Error as error:
            raise Refused(f"the body is not base64: {error}") from error
        message = Message(
            order.topic, body, tags=order.tags or None, keys=order.keys,
            properties=order.properties, delay_s=order.delay_s or None,
        )  # fmt: skip
        async with _producer(desk) as producer:
            receipt = await producer.send(message, key=order.sharding_key or None)
        queue = receipt.queue
        return {
            "results": {"status": receipt.status.value},
            "id": receipt.message_id,
            "topic": queue.topic,
            "queue": f"{queue.broker_name}/{queue.queue_id}",
            "offset": receipt.offset,
        }

    async def resend(self, desk: Desk, order: Any) -> dict[str, Any]:
        """Send messages again, to the topic they came from or to another; one outcome each."""
        results: dict[str, str] = {}
        async with _producer(desk) as producer:
            for place, offset in _places(order.places):
                where = f"{place.broker}/{place.queue}:{offset}"
                try:
                    results[where] = await self._again(desk, producer, order, (place, offset))
                except ContrailError as error:
                    results[where] = f"failed: {error}"
        return {"results": results}

    async def _again(
        self, desk: Desk, producer: Producer, order: Any, at: tuple[Place, int]
    ) -> str:
        record, _ = await at_place(desk, order.topic, *at)
        topic = order.to or origin_of(record)
        if not topic:
            raise Refused("the message does not say which topic it came from; name one")
        _check(topic)
        message = Message(
            topic, record.payload(), tags=record.tags, keys=record.keys,
            properties=own_properties(record),
        )  # fmt: skip
        receipt = await producer.send(message)
        return f"sent to {topic} as {receipt.message_id}"


def _producer(desk: Desk) -> Producer:
    admin = desk.admin
    return Producer(
        GROUP, name_servers=admin.name_servers.addresses, client=admin.settings,
        settings=ProducerSettings(send_timeout_s=CALL_S),
    )  # fmt: skip


def _check(topic: str) -> None:
    fault = topic_fault(topic)
    if fault is not None or is_send_forbidden(topic):
        raise Refused(fault or f"nobody may send to {topic}: it is the broker's own")


def _places(texts: list[str]) -> list[tuple[Place, int]]:
    """Places ``broker/queue:offset``; raises Refused."""
    if not 0 < len(texts) <= BULK_MAX:
        raise Refused(f"{len(texts)} messages, expected 1 to {BULK_MAX} at a time; for more run "
                      "contrail pipeline redrive GROUP")  # fmt: skip
    places = []
    for text in texts:
        name, _, offset = text.rpartition(":")
        broker, _, queue = name.rpartition("/")
        if not broker or not queue.isdecimal() or not offset.isdecimal():
            raise Refused(f"place {text[:60]!r}: expected broker/queue:offset")
        places.append((Place(broker, int(queue)), int(offset)))
    return places
