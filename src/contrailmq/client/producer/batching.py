"""Joining single sends into batches, by size and by time.

A message waits at most ``batch_wait_s`` for company.  All messages of a batch go to one queue and
are stored or refused together; each gets a receipt of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from contrailmq.client.message import Message, Receipt
from contrailmq.client.producer.outgoing import BatchParts, Packer
from contrailmq.client.producer.sender import Sender
from contrailmq.client.settings import ProducerSettings
from contrailmq.errors import ContrailError
from contrailmq.protocol.batch import INNER_SIZE_MIN

log = logging.getLogger(__name__)

Start = Callable[[Coroutine[Any, Any, None]], object]
_OPEN_MAX: Final = 1024  # open batches; at the bound all of them are sent at once


class _Batch:
    __slots__ = ("futures", "parts", "size", "taken", "timer")

    def __init__(self) -> None:
        self.parts = BatchParts()
        self.futures: list[asyncio.Future[Receipt]] = []
        self.size = 0
        self.taken = 0
        self.timer: asyncio.TimerHandle | None = None


class Accumulator:
    """Open batches by topic; ``start`` runs the sending of a full one."""

    def __init__(
        self,
        sender: Sender,
        packer: Packer,
        settings: ProducerSettings,
        *,
        start: Start,
        on_done: Callable[[int, int], None],
    ) -> None:
        self._sender = sender
        self._packer = packer
        self._settings = settings
        self._start = start
        self._now_ms = sender.clock.now_ms
        self._on_done = on_done  # told the count and size of what is no longer under way
        self._open: dict[tuple[str, bool], _Batch] = {}

    def accepts(self, message: Message) -> bool:
        """Whether a message may share a request with others."""
        settings = self._settings
        return (
            not message.is_delayed
            and len(message.body) < min(settings.batch_size, settings.compress_over)
            and message.topic != settings.trace_topic
        )

    def add(self, message: Message, size: int) -> asyncio.Future[Receipt]:
        """Put a message into the open batch of its topic; ``size`` is what it was counted with."""
        loop = asyncio.get_running_loop()
        key = (message.topic, message.wait_stored)
        batch = self._open.get(key)
        new = batch is None
        if batch is None:
            batch = _Batch()
        parts = batch.parts
        self._packer.pack_inner(message, parts, self._now_ms())  # may raise
        if new:
            if len(self._open) >= _OPEN_MAX:
                self.flush()
            self._open[key] = batch
            batch.timer = loop.call_later(self._settings.batch_wait_s, self._send, key)
        future: asyncio.Future[Receipt] = loop.create_future()
        batch.futures.append(future)
        batch.taken += size
        batch.size += INNER_SIZE_MIN + len(parts.bodies[-1]) + len(parts.texts[-1])
        full = batch.size >= self._settings.batch_size
        if full or len(parts.ids) >= self._settings.batch_count_max:
            self._send(key)
        return future

    def flush(self) -> None:
        """Send what waits for company."""
        for key in list(self._open):
            self._send(key)

    def _send(self, key: tuple[str, bool]) -> None:
        batch = self._open.pop(key, None)
        if batch is None:
            return
        if batch.timer is not None:
            batch.timer.cancel()
        self._start(self._deliver(key[0], batch))

    async def _deliver(self, topic: str, batch: _Batch) -> None:
        try:
            await self._try(topic, batch)
        finally:
            self._on_done(len(batch.futures), batch.taken)

    async def _try(self, topic: str, batch: _Batch) -> None:
        try:
            outgoing = self._packer.join(topic, batch.parts)
            receipt = await self._sender.send(outgoing)
            receipts = split_receipt(receipt)
        except (ContrailError, asyncio.CancelledError) as error:
            for future in batch.futures:
                if not future.done():
                    if isinstance(error, asyncio.CancelledError):
                        future.cancel()
                    else:
                        future.set_exception(error)
                        future.exception()  # logged below, for those who do not fetch it
            if isinstance(error, asyncio.CancelledError):
                raise
            log.error("batch not sent topic=%s count=%s error=%s", topic, len(batch.futures), error)
            return
        for future, single in zip(batch.futures, receipts, strict=True):
            if not future.done():
                future.set_result(single)


def split_receipt(receipt: Receipt) -> list[Receipt]:
    """The receipts of the single messages of a batch."""
    ids = receipt.message_id.split(",")
    places = receipt.offset_message_id.split(",")
    if len(places) != len(ids):  # a broker that stores the batch as one names one place
        places = [receipt.offset_message_id] * len(ids)
    queue, offset, status, region = receipt.queue, receipt.offset, receipt.status, receipt.region
    return [
        Receipt(message_id, place, queue, offset + index, status, None, region)
        for index, (message_id, place) in enumerate(zip(ids, places, strict=True))
    ]
