"""Pulling one queue for as long as it is ours: flow control, offsets that moved, errors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from contrailmq.client.consumer.puller import Puller, PullStatus, PullWish
from contrailmq.client.consumer.work import Inbox, QueueWork
from contrailmq.client.session import Session
from contrailmq.client.settings import ConsumerSettings
from contrailmq.errors import (
    BrokerError,
    ContrailError,
    FilterDataNotExist,
    FilterDataNotLatest,
    SubscriptionNotExist,
    SubscriptionNotLatest,
    SystemBusy,
)
from contrailmq.net.noise import Noise

log = logging.getLogger(__name__)

_UNKNOWN_TO_BROKER: Final = (
    SubscriptionNotExist,
    SubscriptionNotLatest,
    FilterDataNotExist,
    FilterDataNotLatest,
)
_FLOW_CONTROL: Final = 215
_BUSY_PAUSE_S: Final = 0.02
_STRANGER_PAUSE_S: Final = 0.1

Moved = Callable[[QueueWork, int], Awaitable[None]]


class PullLoop:
    """Pulls the queues of one push consumer."""

    def __init__(
        self,
        session: Session,
        puller: Puller,
        inbox: Inbox,
        settings: ConsumerSettings,
        *,
        ordered: bool,
        commits: bool,
        on_moved: Moved,
        lite: bool = False,
    ) -> None:
        self._session = session
        self._puller = puller
        self._inbox = inbox
        self._settings = settings
        self._ordered = ordered
        self._commits = commits
        self._lite = lite
        self._on_moved = on_moved
        self._clock = session.world.clock
        self._noise = Noise(session.world.clock)
        self.open = asyncio.Event()  # cleared while the consumer is paused
        self.open.set()

    async def run(self, work: QueueWork) -> None:
        """Pull until the queue is dropped or the task cancelled."""
        while not work.dropped:
            await self._wait_for_room(work)
            work.last_pull_ms = self._clock.now_ms()
            try:
                await self._pull(work)
            except ContrailError as error:
                await self._recover(work, error)
            else:
                if self._settings.pull_interval_s:
                    await asyncio.sleep(self._settings.pull_interval_s)

    async def _pull(self, work: QueueWork) -> None:
        cache = work.cache
        # Only when nothing is in hand: a broker may carry this commit out after the one of a close,
        # which waits for another thread (seen with Java's: the last message came again).
        commits = self._commits and cache.commit_offset() == cache.next_offset
        wish = PullWish(
            offset=cache.next_offset,
            count=self._settings.pull_count,
            size=self._settings.pull_size,
            suspend_s=self._settings.suspend_s,
            timeout_s=self._settings.pull_timeout_s,
            commit_offset=cache.next_offset if commits and cache.next_offset > 0 else -1,
            send_subscription=self._lite,
            lite=self._lite,
        )
        pulled = await self._puller.pull(
            work.queue, wish, origin=work, subscription=work.subscription
        )
        if work.dropped:
            return
        if pulled.status is PullStatus.OFFSET_ILLEGAL:
            await self._moved(work, wish.offset, pulled.next_offset, pulled.from_master)
            return
        cache.add(pulled.messages, pulled.next_offset)
        if pulled.messages:
            self._inbox.offer(work)

    async def _moved(self, work: QueueWork, asked: int, offered: int, from_master: bool) -> None:
        """The broker does not have our offset; a replica that is behind is not believed."""
        if not from_master and offered < asked:
            self._puller.ask_master(work.queue)
            await asyncio.sleep(self._settings.error_pause_s)
            return
        log.warning(
            "offset moved by the broker queue=%s asked=%s continues_at=%s",
            work.queue, asked, offered,
        )  # fmt: skip
        await self._on_moved(work, max(offered, 0))

    async def _wait_for_room(self, work: QueueWork) -> None:
        if not self.open.is_set():
            await self.open.wait()
        while work.is_full(self._settings, ordered=self._ordered) and not work.dropped:
            work.stalled = True
            work.room.clear()
            await work.room.wait()

    async def _recover(self, work: QueueWork, error: ContrailError) -> None:
        if isinstance(error, _UNKNOWN_TO_BROKER):
            # A broker that restarted, or that our last heartbeat has not reached yet.
            await self._session.heartbeat()
            pause_s = _STRANGER_PAUSE_S
        elif isinstance(error, SystemBusy) or (
            isinstance(error, BrokerError) and error.code == _FLOW_CONTROL
        ):
            pause_s = _BUSY_PAUSE_S
        else:
            self._puller.ask_master(work.queue)
            pause_s = self._settings.error_pause_s
        held_back = self._noise.held_back(str(work.queue))
        if held_back is not None:
            log.warning("pull failed queue=%s error=%s similar=%s", work.queue, error, held_back)
        await asyncio.sleep(pause_s)
