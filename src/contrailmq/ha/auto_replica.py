"""The taking side in controller mode: a handshake finds where both logs are the same.

The replica cuts a record that is not whole, says who it is, and gets the primary's epochs.  Its own
newest epoch that the primary has too, begun at the same place, says up to where both are the same;
what is behind is cut away.  Then it goes on as a classic replica does, and notes epochs and what is
confirmed.
"""

from __future__ import annotations

import asyncio
import logging

from contrailmq.clock import Clock
from contrailmq.errors import ContrailError, ProtocolError, StoreError
from contrailmq.ha import wire
from contrailmq.ha.epochs import EpochList
from contrailmq.ha.replica import Replica, ReplicaLink
from contrailmq.ha.settings import HaSettings
from contrailmq.lifecycle import Tasks
from contrailmq.net.network import Network
from contrailmq.store.store import Store

log = logging.getLogger(__name__)


class AutoReplicaLink(ReplicaLink):
    """The connection to a primary in controller mode."""

    def __init__(
        self, store: Store, settings: HaSettings, epochs: EpochList, *, broker_id: int, tasks: Tasks
    ) -> None:
        super().__init__(store, settings)
        self._epochs = epochs
        self._tasks = tasks
        self._reader = wire.AutoFrameReader()
        self._broker_id = broker_id
        self._is_aligned = False
        self._confirmed = -1

    def data_received(self, data: memoryview | bytes) -> None:
        """Frames; what they confirm counts when their bodies are here."""
        super().data_received(data)
        if self._confirmed >= 0 and not self.closed.done():
            self._store.confirm(min(self._confirmed, self._store.max_offset))

    def report(self, *, again: bool = False) -> None:
        """Say how far we are; before the logs are aligned say who we are."""
        if self._is_aligned:
            super().report(again=again)
        elif again:
            self._greet()

    def _greet(self) -> None:
        if self._transport is not None:
            self.wrote_at = asyncio.get_running_loop().time()
            settings = self._settings
            hello = wire.ReplicaHello(settings.from_last_file, settings.is_learner, self._broker_id)
            self._transport.write(wire.replica_hello(hello))

    def _greeted(self, hello: wire.PrimaryHello) -> None:
        if not self._is_aligned:
            self._tasks.start(self._align(hello), name="aligning with the primary")

    async def _align(self, hello: wire.PrimaryHello) -> None:
        store = self._store
        try:
            if store.max_offset == store.min_offset:
                cut: int | None = store.max_offset
            else:
                cut = self._epochs.common_end(store.max_offset, hello.epochs, hello.end)
                if cut is None and not store.bound and self._epochs.never_was(hello.epochs):
                    cut = 0  # nothing of this log was ever confirmed
            if cut is None or cut < store.min_offset:
                raise StoreError(
                    f"no epoch of {list(self._epochs.entries)} is one of the primary's "
                    f"{list(hello.epochs)}: empty this replica's store"
                )
            if cut < store.max_offset:
                log.warning(
                    "what the primary does not have is cut: from=%s to=%s", store.max_offset, cut
                )
                await store.cut(cut)
            # An empty log has no epochs: those of the primary may begin at the same place.
            self._epochs.cut(0 if store.max_offset == store.min_offset else cut)
        except ContrailError as error:
            log.error("cannot follow the primary: error=%s", error)
            self.close(str(error))
            return
        self._is_aligned = True
        self.report(again=True)

    def _begun(self, frame: wire.Frame) -> None:
        if not self._is_aligned:
            raise ProtocolError("a frame before the logs are aligned")
        super()._begun(frame)
        if frame.epoch > self._epochs.last_epoch:
            self._epochs.append(frame.epoch, frame.epoch_start)
        self._confirmed = frame.confirmed

    def _encode(self, end: int) -> bytes:
        return wire.auto_report(end)


class AutoReplica(Replica):
    """Follows the primary a controller names."""

    def __init__(
        self,
        store: Store,
        settings: HaSettings,
        epochs: EpochList,
        *,
        network: Network,
        clock: Clock,
    ) -> None:
        super().__init__(store, settings, network=network, clock=clock)
        self._epochs = epochs
        self._tasks = Tasks()
        self._cutting = asyncio.Lock()
        self.broker_id = 0

    async def run(self) -> None:
        """Connect, align, take, connect again, until cancelled."""
        try:
            await super().run()
        finally:
            await self._tasks.aclose()

    async def stop_following(self) -> None:
        """Follow nobody; return when the log is left alone."""
        self.follow("")
        async with self._cutting:
            await self._tasks.aclose()

    async def _take_from(self, address: str) -> None:
        async with self._cutting:
            if self.address == address:
                await self._store.cut(self._store.whole_end())
        if self.address == address:
            await super()._take_from(address)

    def _new_link(self) -> ReplicaLink:
        return AutoReplicaLink(
            self._store, self._settings, self._epochs, broker_id=self.broker_id, tasks=self._tasks
        )
