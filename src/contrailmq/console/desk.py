"""A desk: one account's connection to the cluster, its snapshot, and what keeps that fresh.

Visitors with the same account share a desk, so ten open browsers cost the cluster what one does.
While nobody looks, only the brokers' pulse is taken, every ten seconds, so that charts have a past;
after an hour without a visitor that ends, too.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from typing import Final

from contrailmq.admin.client import AdminClient
from contrailmq.admin.doctor.cluster import (
    examine_brokers,
    examine_name_servers,
    examine_permissions,
    examine_routes,
)
from contrailmq.admin.doctor.findings import Chart, Finding, Severity
from contrailmq.client.access import Credentials
from contrailmq.client.settings import ClientSettings
from contrailmq.console.cluster import ClusterView
from contrailmq.console.history import History
from contrailmq.console.settings import CALL_S, SEARCHES_MAX, STREAMS_MAX
from contrailmq.errors import ContrailError

log = logging.getLogger(__name__)

LOOKED_AT_S: Final = 20.0
PULSE_S: Final = 2.0
IDLE_PULSE_S: Final = 10.0
FORGOTTEN_S: Final = 3600.0
DOCTOR_S: Final = 60.0
CRAWL: Final = 200  # topics per second whose bounds are fetched in the background
STUCK_S: Final = 30.0  # consumers commit every five seconds
GROUP_SERIES_MAX: Final = 200
FINDINGS_MAX: Final = 50


class Desk:
    """What handlers get of the cluster: ``admin`` to ask it, ``view`` and ``history`` to show."""

    def __init__(self, admin: AdminClient) -> None:
        self.admin = admin
        self.view = ClusterView(admin)
        self.history = History()
        self.searches = asyncio.Semaphore(SEARCHES_MAX)
        self.streams = asyncio.Semaphore(STREAMS_MAX)
        self._findings: list[Finding] = []
        self._seen_ms = admin.world.clock.monotonic_ms()
        self._wake = asyncio.Event()
        self._still: dict[str, tuple[int, int]] = {}  # group: committed in all, since when (ms)

    def touch(self) -> None:
        """A visitor looks: what is shown is kept fresh for a while."""
        self._seen_ms = self._now()
        self._wake.set()

    def unseen_s(self) -> float:
        """Seconds since the last visitor."""
        return (self._now() - self._seen_ms) / 1000

    async def keep(self) -> None:
        """Keep the snapshot fresh until cancelled."""
        examined_ms = -(10**9)
        while True:
            try:
                await self._round()
                if self._is_seen() and self._now() - examined_ms > DOCTOR_S * 1000:
                    examined_ms = self._now()
                    self._findings = await self._examine()
            except ContrailError as error:
                self.view.faults = [str(error)]
                log.debug("the console cannot read the cluster: %s", error)
            self._wake.clear()
            if self.unseen_s() > FORGOTTEN_S:
                await self._wake.wait()
            try:
                async with asyncio.timeout(PULSE_S if self._is_seen() else IDLE_PULSE_S):
                    if not self._is_seen():
                        await self._wake.wait()
                    else:
                        await asyncio.sleep(PULSE_S)
            except TimeoutError:
                continue

    async def _round(self) -> None:
        await self.view.pulse()
        self._sample()
        if not self._is_seen():
            return
        revision = self.view.revision
        # Ends first: a group that keeps up is then not shown behind by what came in between.
        watched = self.view.watched_topics()[: int(CRAWL * PULSE_S)]
        await self.view.know_ends(watched, age_s=PULSE_S)
        await self.view.fresh()
        if self.view.revision != revision:
            self._watch_groups()
        self._sample_lag()

    def _sample(self) -> None:
        now, history = self.view.pulse_ms, self.history
        masters = [member for member in self.view.members if member.is_master]
        for name, key in (("in", "putTps"), ("out", "getTransferredTps")):
            history.add(name, now, sum(first_number(m.runtime.get(key)) for m in masters))
        slowest = max((first_number(m.runtime.get("putLatency99")) for m in masters), default=0.0)
        history.add("latency", now, slowest)
        for member in self.view.members:
            history.add(f"in:{member.address}", now, first_number(member.runtime.get("putTps")))
            out = first_number(member.runtime.get("getTransferredTps"))
            history.add(f"out:{member.address}", now, out)

    def _sample_lag(self) -> None:
        now, total = self.view.now_ms(), 0
        for number, group in enumerate(self.view.groups.values()):
            lag = self.view.lag(group)
            if lag is None:
                continue
            total += lag
            if number < GROUP_SERIES_MAX and group.committed:
                self.history.add(f"lag:{group.name}", now, lag)
        self.history.add("lag", now, total)

    def _watch_groups(self) -> None:
        """Note since when each group has not moved."""
        before, self._still = self._still, {}
        now = self._now()
        for group in self.view.groups.values():
            done = sum(sum(queues.values()) for queues in group.committed.values())
            then, since = before.get(group.name, (-1, now))
            self._still[group.name] = (done, since if done == then else now)

    def is_stuck(self, group: str) -> bool:
        """Whether a group has messages before it and has not moved for a while."""
        found = self.view.groups.get(group)
        if found is None or group not in self._still:
            return False
        still_s = (self._now() - self._still[group][1]) / 1000
        return still_s >= STUCK_S and bool(self.view.lag(found))

    def findings(self) -> list[Finding]:
        """What is wrong: the doctor's look at servers, and groups that do not move."""
        found = list(self._findings)
        for name in self.view.groups:
            if len(found) >= FINDINGS_MAX:
                break
            if self.is_stuck(name):
                lag = self.view.lag(self.view.groups[name])
                found.append(
                    Finding(
                        check="group",
                        severity=Severity.WARNING,
                        text=f"group {name} has {lag:,} messages before it and does not move",
                        cause="its consumers are not running, or a handler hangs",
                        fix=f"contrail group show {name}",
                    )
                )
        return found

    async def _examine(self) -> list[Finding]:
        chart = Chart()
        known = await examine_name_servers(self.admin, chart)
        if known is not None:
            masters = await examine_brokers(self.admin, chart, known)
            if masters:
                await examine_routes(self.admin, chart, masters)
                await examine_permissions(self.admin, chart, masters)
        return [finding for finding in chart.findings if finding.severity is not Severity.OK]

    def _is_seen(self) -> bool:
        return self.unseen_s() < LOOKED_AT_S

    def _now(self) -> int:
        return self.admin.world.clock.monotonic_ms()


def first_number(text: str | None) -> float:
    """The first of the numbers of a runtime value such as ``putTps``: the last ten seconds."""
    try:
        return float((text or "0").split()[0])
    except (ValueError, IndexError):
        return 0.0


class DeskMaker:
    """Makes desks for accounts of one cluster."""

    def __init__(self, name_servers: str, settings: ClientSettings) -> None:
        self.name_servers = name_servers
        self._settings = settings

    def make(self, credentials: Credentials | None = None) -> Desk:
        """A desk that asks under an account, or under that of the settings."""
        settings = self._settings
        if credentials is not None:
            settings = dataclasses.replace(settings, credentials=credentials)
        return Desk(AdminClient(self.name_servers, settings=settings, timeout_s=CALL_S))
