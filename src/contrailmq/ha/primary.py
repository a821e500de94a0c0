"""The sending side of replication: replicas connect, get the log, and report how far they are.

Without a replica nothing of it runs: the store's append tells of new data only while one is
connected, and the timer for heartbeats runs as long.

**Who has to have it.**  A send that waits does so until enough replicas have reported its end
(``Quorum``): in classic mode a number of connections, in controller mode every member of the
in-sync set.  When too few are there, or near enough, it is told so at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from contrailmq.errors import StoreError
from contrailmq.ha.epochs import EpochList
from contrailmq.ha.in_sync import InSyncSet
from contrailmq.ha.link import Link
from contrailmq.ha.settings import HaSettings
from contrailmq.ha.waits import Done, ReplicaWaits
from contrailmq.net.network import Listener, Network
from contrailmq.protocol.bodies.stats import HAConnectionRuntimeInfo
from contrailmq.store.certainty import ReplicaFault
from contrailmq.store.store import Store

log = logging.getLogger(__name__)

LINKS_MAX: Final = 64
TICK_S: Final = 0.5


class Quorum(Protocol):
    """Which replicas a message needs."""

    def certain_offset(self, links: list[Link], end: int) -> int:
        """Up to where enough replicas have everything."""
        ...

    def is_available(self, links: list[Link], end: int) -> bool:
        """Whether it makes sense to wait for an offset."""
        ...


class AnyReplicas:
    """Classic: so many connections, whoever they are."""

    def __init__(self, needed: int, *, behind_max: int) -> None:
        self._needed = needed
        self._behind_max = behind_max

    def certain_offset(self, links: list[Link], end: int) -> int:
        """The offset that the needed number of replicas has reached."""
        if self._needed <= 0:
            return end
        reached = sorted((link.acknowledged for link in links), reverse=True)
        return reached[self._needed - 1] if len(reached) >= self._needed else -1

    def is_available(self, links: list[Link], end: int) -> bool:
        """Whether the needed number is there and not too far behind (haSlaveFallbehindMax)."""
        near = sum(
            1
            for link in links
            if link.acknowledged >= 0 and end - link.acknowledged < self._behind_max
        )
        return near >= self._needed


class Primary:
    """All replicas of this broker. Owned by the loop."""

    def __init__(
        self,
        store: Store,
        settings: HaSettings,
        *,
        quorum: Quorum,
        epochs: EpochList | None = None,
        in_sync: InSyncSet | None = None,
    ) -> None:
        self.store = store
        self.settings = settings
        self.epochs = epochs
        self.quorum = quorum
        self.in_sync = in_sync
        self.links: dict[Link, None] = {}
        self.waits = ReplicaWaits(settings.timeout_ms / 1000)
        self.is_serving = False
        self.refused = 0
        self.on_change: Callable[[Link], None] = lambda link: None  # one came, went or reported
        self._is_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._listener: Listener | None = None
        self.admits: Callable[[Link], bool] = lambda link: True

    async def listen(self, network: Network, host: str, port: int) -> int:
        """Let replicas connect; the port. Raises OSError when it is taken."""
        self._listener = await network.listen(lambda: Link(self), host, port)
        return self._listener.port

    async def aclose(self) -> None:
        """Let every replica go and listen no more."""
        self.stop("closing down")
        if self._listener is not None:
            self._listener.close()
            await self._listener.wait_closed()
            self._listener = None

    def serve(self) -> None:
        """Be a primary: take replicas."""
        self.is_serving = True
        if self.in_sync is not None:
            self.store.follower.on_appended = self.appended

    def stop(self, reason: str) -> None:
        """Be none any more: let all replicas go, and whoever waits for them."""
        self.is_serving = False
        for link in list(self.links):
            link.close(reason)
            self.unlinked(link)
        self.store.follower.on_appended = None
        self.waits.fail_all(ReplicaFault.TIMEOUT)

    def when_replicated(self, end_offset: int, done: Done) -> None:
        """Call back once enough replicas have everything before ``end_offset``, or will not."""
        links = list(self.links)
        if self.quorum.certain_offset(links, end_offset) >= end_offset:
            done(None)
        elif not self.quorum.is_available(links, end_offset):
            done(ReplicaFault.NOT_AVAILABLE)
        else:
            self.waits.add(end_offset, done)

    def settle(self) -> None:
        """Acknowledgements or the rule have changed: tell those who waited for it."""
        if len(self.waits):
            end = self.store.max_offset
            self.waits.settle(self.quorum.certain_offset(list(self.links), end))

    def update_confirmed(self) -> None:
        """Let readers see what the in-sync set has, in controller mode."""
        if self.in_sync is None or not self.is_serving:
            return
        before = self.store.bound
        end = self.store.sendable_end()
        self.store.confirm(self.in_sync.confirmed(list(self.links), end))
        if self.store.bound != before:
            self._pump_soon()

    def appended(self, end_offset: int) -> None:
        """The log has grown: send it at the end of this turn of the loop."""
        if self.in_sync is not None:
            self.update_confirmed()
        self._pump_soon()

    def _pump_soon(self) -> None:
        if not self._is_due and self.links:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._pump)

    def connections(self) -> list[HAConnectionRuntimeInfo]:
        """The replicas as 907 shows them."""
        end = self.store.max_offset
        return [
            HAConnectionRuntimeInfo(
                addr=link.peer,
                diff=end - max(link.acknowledged, 0),
                in_sync=0 <= link.acknowledged > end - self.settings.gap_in_sync_max,
                slave_ack_offset=max(link.acknowledged, 0),
                transfer_from_where=link.next_offset,
                transferred_byte_in_second=link.bytes_a_second,
            )
            for link in self.links
        ]

    # What links call

    def linked(self, link: Link) -> bool:
        """A replica has connected."""
        if not self.is_serving or len(self.links) >= LINKS_MAX or not self.admits(link):
            self.refused += 1
            return False
        self.links[link] = None
        self.store.follower.on_appended = self.appended
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(TICK_S, self._tick)
        return True

    def acknowledged(self, link: Link) -> None:
        """A replica has reported."""
        self.update_confirmed()
        self.settle()
        self.on_change(link)

    def unlinked(self, link: Link) -> None:
        """A replica has gone."""
        if self.links.pop(link, self) is self:
            return
        if not self.links:
            if self.in_sync is None:
                self.store.follower.on_appended = None
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        self.on_change(link)

    def _pump(self) -> None:
        self._is_due = False
        for link in list(self.links):
            try:
                if not link.pump() and self.in_sync is not None:
                    link.confirm_if_new()
            except StoreError as error:
                link.close(str(error))

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(TICK_S, self._tick)
        for link in list(self.links):
            link.beat(loop.time())
            link.pump()
