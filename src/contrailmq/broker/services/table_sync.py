"""The tables of a replica: fetched from its primary again and again (SlaveSynchronize).

Topics, groups, offsets of consumers and of delay levels, request modes, and how far the timers are
(a primary without timers, or of 4.9, has no such thing to tell).  Each is asked for by
itself; one that fails does not stop the others.  Topics and groups are taken over as a whole when
their data version differs.  Offsets are added to what is there: after a switch they are as old as
the last round, so messages are delivered again and none is lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from contrailmq.broker.config.saving import Saving
from contrailmq.broker.services.delay import DelayLevels
from contrailmq.broker.services.registration import Registration
from contrailmq.broker.tables.groups import GroupTable
from contrailmq.broker.tables.offsets import OffsetTable
from contrailmq.broker.tables.topics import TopicTable
from contrailmq.clock import Clock
from contrailmq.errors import BrokerError, NetworkError, ProtocolError, error_of
from contrailmq.net.client import RemotingClient
from contrailmq.net.noise import Noise
from contrailmq.protocol.bodies.group import SubscriptionGroupWrapper
from contrailmq.protocol.bodies.queues import ConsumerOffsets, DelayOffsets
from contrailmq.protocol.bodies.topic import TopicConfigWrapper
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command

log = logging.getLogger(__name__)

OURS_S: Final = 3.0  # a primary of ours answers quickly
JAVA_S: Final = 10.0
REST: Final = 50  # times as long as a round took, for large tables
REST_S_MAX: Final = 30.0
TIMEOUT_S: Final = 3.0


class TimerCheck(Protocol):
    """What this module needs of the timers."""

    def adopt(self, check: bytes) -> None:
        """Go on where a primary is, once this broker is one."""
        ...


class TableSync:
    """Keeps the tables of a replica like its primary's; a service that runs until cancelled."""

    def __init__(
        self,
        client: RemotingClient,
        topics: TopicTable,
        groups: GroupTable,
        *,
        offsets: OffsetTable,
        delay: DelayLevels,
        timers: TimerCheck,
        saving: Saving,
        registration: Registration,
        clock: Clock,
        log_end: Callable[[], int],
    ) -> None:
        self._client = client
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._delay = delay
        self._timers = timers
        self._saving = saving
        self._registration = registration
        self._noise = Noise(clock)
        self._log_end = log_end
        self._wake = asyncio.Event()
        self._is_ours = False
        self.primary = ""
        self.rounds = 0  # that were complete
        self.topics_end = 0  # topics of messages before this place of the log are known

    def follow(self, primary: str) -> None:
        """Take the tables of this broker from now on; nobody's with an empty address."""
        if primary != self.primary:
            self.primary = primary
            self._wake.set()

    async def run(self) -> None:
        """A round at once when there is a new primary, then every few seconds."""
        loop = asyncio.get_running_loop()
        while True:
            self._wake.clear()
            pause_s: float | None = None
            if self.primary:
                began = loop.time()
                is_whole = await self.round()
                usual_s = OURS_S if self._is_ours or not is_whole else JAVA_S
                rest_s = REST * (loop.time() - began) if is_whole else 0.0
                pause_s = max(usual_s, min(rest_s, REST_S_MAX))
            try:
                async with asyncio.timeout(pause_s):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def round(self) -> bool:
        """Fetch everything once; whether all of it came."""
        is_whole = True
        end = self._log_end()
        for code, take in (
            (RequestCode.GET_ALL_TOPIC_CONFIG, self._take_topics),
            (RequestCode.GET_ALL_CONSUMER_OFFSET, self._take_offsets),
            (RequestCode.GET_ALL_DELAY_OFFSET, self._take_delays),
            (RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, self._take_groups),
        ):
            has_come = await self._fetch(code, take)
            is_whole = has_come and is_whole
            if has_come and code == RequestCode.GET_ALL_TOPIC_CONFIG:
                self.topics_end = end
        await self._fetch_check()
        self.rounds += is_whole
        return is_whole

    async def _fetch_check(self) -> None:
        """The checkpoint of the timers, which not every primary has."""
        primary = self.primary
        request = Command.request(RequestCode.GET_TIMER_CHECK_POINT)
        try:
            answer = await self._client.call(primary, request, timeout_s=TIMEOUT_S)
        except NetworkError:
            return  # the tables have said so
        if answer.code == 0 and primary == self.primary:
            self._timers.adopt(bytes(answer.body))

    async def _fetch(self, code: RequestCode, take: Callable[[bytes], None]) -> bool:
        primary = self.primary
        try:
            answer = await self._client.call(primary, Command.request(code), timeout_s=TIMEOUT_S)
            if answer.code != 0:
                raise error_of(answer.code, answer.remark)
            self._is_ours = answer.language == "PYTHON"
            if primary == self.primary and answer.body:
                take(bytes(answer.body))
        except (NetworkError, BrokerError, ProtocolError) as error:
            held_back = self._noise.held_back(f"{primary} {code}")
            if held_back is not None:
                log.warning(
                    "a table was not fetched: primary=%s code=%s error=%s held_back=%s",
                    primary,
                    int(code),
                    error,
                    held_back,
                )
            return False
        return True

    def _take_topics(self, body: bytes) -> None:
        found = TopicConfigWrapper.decode(body)
        if found.data_version != self._topics.version.value:
            self._topics.load(found)
            self._saving.changed()
            self._registration.changed()

    def _take_groups(self, body: bytes) -> None:
        found = SubscriptionGroupWrapper.decode(body)
        if found.data_version != self._groups.version.value:
            self._groups.load(found)
            self._saving.changed()

    def _take_offsets(self, body: bytes) -> None:
        self._offsets.merge(ConsumerOffsets.decode(body).offset_table)

    def _take_delays(self, body: bytes) -> None:
        self._delay.load(DelayOffsets.decode(body))
