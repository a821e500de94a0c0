"""Pulling one queue for as long as it is ours: flow control, offsets that moved, errors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from contrailmq.client.consumer.puller import Puller, PullStatus, PullWish
from contrailmq.client.consumer.queue_work import Inbox, QueueWork
from contrailmq.client.message import ReceivedMessage
from contrailmq.client.session import Session
from contrailmq.client.settings import ConsumerSettings
from contrailmq.errors import (
    BrokerError,
    ContrailError,
    FilterDataNotExist,
    FilterDataNotLatest,
    RemoteProtocolError,
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

_QUICK_MS: Final = 100  # an answer that leads nowhere and came faster is no long poll
_BRAKE_AFTER: Final = 3
_BRAKE_S: Final = 0.02
_DAMAGE_TRIES: Final = 3  # an answer that begins with bytes that are no record

Moved = Callable[[QueueWork, int], Awaitable[None]]
Bury = Callable[[ReceivedMessage], Awaitable[bool]]


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
        self.bury: Bury | None = None  # makes dead letters, where the consumer can
        self._clock = session.world.clock
        self._noise = Noise(session.world.clock)
        self.open = asyncio.Event()  # cleared while the consumer is paused
        self.open.set()

    async def run(self, work: QueueWork) -> None:
        """Pull until the queue is dropped or the task cancelled."""
        while not work.dropped:
            await self._wait_for_room(work)
            work.last_pull_ms = self._clock.now_ms()
            begun_ms, offset = self._clock.monotonic_ms(), work.cache.next_offset
            try:
                await self._pull(work)
            except RemoteProtocolError as error:
                await self._pass_damage(work, error)
            except ContrailError as error:
                await self._recover(work, error)
            else:
                is_quick = self._clock.monotonic_ms() - begun_ms < _QUICK_MS
                if is_quick and work.cache.next_offset <= offset:
                    await self._brake(work)
                else:
                    work.fruitless = 0
                if self._settings.pull_interval_s:
                    await asyncio.sleep(self._settings.pull_interval_s)

    async def _brake(self, work: QueueWork) -> None:
        """Wait longer and longer while answers come at once and lead nowhere."""
        work.fruitless += 1
        if work.fruitless > _BRAKE_AFTER:
            pause_s = _BRAKE_S * 2.0 ** min(work.fruitless - _BRAKE_AFTER, 10)
            await asyncio.sleep(min(pause_s, self._settings.error_pause_s))

    async def _pass_damage(self, work: QueueWork, error: RemoteProtocolError) -> None:
        """Try bytes that are no record again; then step over the message they should be."""
        work.damaged += 1
        if work.damaged >= _DAMAGE_TRIES:
            work.damaged = 0
            log.error(
                "a message cannot be read and is stepped over queue=%s offset=%s error=%s",
                work.queue, work.cache.next_offset, error,
            )  # fmt: skip
            work.cache.add([], work.cache.next_offset + 1)
        await self._recover(work, error)

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
        if pulled.next_offset < wish.offset or (
            pulled.messages and pulled.next_offset == wish.offset
        ):
            # Nothing is taken of it, or the same messages would come for ever.
            raise BrokerError(
                f"the answer to a pull leads from {wish.offset} to {pulled.next_offset}"
            )
        messages = pulled.messages
        if any(message.problem is not None for message in messages):
            messages = await self._without_bad(messages)
        work.damaged = 0
        cache.add(messages, pulled.next_offset)
        if messages:
            self._inbox.offer(work)

    async def _without_bad(self, messages: list[ReceivedMessage]) -> list[ReceivedMessage]:
        """Do with messages that cannot be opened what the settings say, and return the others."""
        kind = self._settings.on_bad_message
        for message in messages:
            if message.problem is None:
                continue
            does = "deliver" if kind == "deliver" else "skip"
            if kind == "dead_letter" and self.bury is not None:
                does = "dead letter"
                if not await self.bury(message):
                    raise BrokerError(f"{message!r} cannot be opened, nor be made a dead letter")
            log.error(
                "a message cannot be opened queue=%s offset=%s id=%s problem=%s does=%s",
                message.queue, message.queue_offset, message.message_id, message.problem, does,
            )  # fmt: skip
        if kind == "deliver":
            return messages
        return [message for message in messages if message.problem is None]

    async def _moved(self, work: QueueWork, asked: int, offered: int, from_master: bool) -> None:
        """The broker does not have our offset; a replica that is behind is not believed."""
        if not from_master and offered < asked:
            self._puller.ask_master(work.queue)
            await asyncio.sleep(self._settings.error_pause_s)
            return
        held_back = self._noise.held_back(f"moved {work.queue}")
        if held_back is not None:
            log.warning(
                "offset moved by the broker queue=%s asked=%s continues_at=%s similar=%s",
                work.queue, asked, offered, held_back,
            )  # fmt: skip
        else:
            await asyncio.sleep(self._settings.error_pause_s)  # not the first in ten seconds
        if max(offered, 0) != asked:
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
