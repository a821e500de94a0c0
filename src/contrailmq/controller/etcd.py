"""Groups kept in etcd, for any number of controllers: one leads, and only it can change anything.

Theory of operation.  A controller holds a lease of ``TTL_S`` seconds, kept alive at a third of
that.  The leader is the holder of one key that lives as long as its lease.  **Every change is one
transaction: if the leader's key has the create-revision that this controller made it with, and the
group has the revision that was read, then put.**  A leader that slept, or was cut off, therefore
changes nothing, however late it wakes; no clock decides about safety.  A call without an answer may
have been made: the lead is given up, and everything is read again before the next change.

Keys: ``PREFIX/leader`` is the leader's address, ``PREFIX/controllers/ADDRESS`` every controller,
``PREFIX/groups/NAME`` one group as JSON.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from contrailmq.controller.groups import Group
from contrailmq.errors import ConfigError, ContrailError
from contrailmq.protocol.hosts import split_address

log = logging.getLogger(__name__)

SCHEME: Final = "etcd://"
TTL_S: Final = 5
CAMPAIGN_S: Final = 0.5
RETRY_S: Final = 0.2
MARGIN_S: Final = 0.5  # a leader stops answering so long before its lease can end


class EtcdFault(ContrailError):
    """Etcd did not answer, or refused; whether a change was made is unknown."""


class Row(NamedTuple):
    """One key as it is."""

    key: str
    value: bytes
    created: int
    modified: int
    lease: int


class Condition(NamedTuple):
    """What must hold for a change: the revision a key was created or modified at, 0 for none."""

    key: str
    revision: int
    is_create: bool = False


class Change(NamedTuple):
    """A new value of a key; None deletes it."""

    key: str
    value: bytes | None
    lease: int = 0


class Outcome(NamedTuple):
    """Whether the change was made, at which revision, and every key under the prefix then."""

    made: bool
    revision: int
    rows: Sequence[Row]


class KeyValues(Protocol):
    """What a ledger needs of etcd. Every call ends within a time; one that fails is a fault."""

    async def lease(self, ttl_s: int) -> int:
        """Return a new lease."""
        ...

    async def refresh(self, lease: int) -> bool:
        """Keep a lease alive; False when it has ended."""
        ...

    async def revoke(self, lease: int) -> None:
        """End a lease, and with it its keys."""
        ...

    async def transact(
        self, conditions: Sequence[Condition], change: Change, *, prefix: str = ""
    ) -> Outcome:
        """Make a change if all conditions hold; read what is under ``prefix`` in any case."""
        ...

    async def aclose(self) -> None:
        """Close the connection."""
        ...


class EtcdLedger:
    """The groups in etcd. Owned by the loop."""

    def __init__(self, values: KeyValues, *, prefix: str) -> None:
        self._values = values
        self._prefix = f"{prefix}/"
        self._leader_key = f"{prefix}/leader"
        self._groups: dict[str, Group] = {}
        self._revisions: dict[str, int] = {}
        self._lease = 0
        self._until = 0.0  # the lease lives so long at least
        self._term = 0  # the create-revision of our leader's key; 0: another leads
        self._leader = ""
        self._controllers: list[str] = []
        self._wake = asyncio.Event()

    async def open(self) -> dict[str, Group]:
        """Nothing yet: the groups are told when they are read."""
        return {}

    def leads(self) -> bool:
        """Whether this controller holds the leader's key, as far as it knows."""
        return self._term != 0 and asyncio.get_running_loop().time() < self._until

    def leader(self) -> str:
        """The address of the controller that leads; empty when none does."""
        return self._leader

    def controllers(self) -> list[str]:
        """The addresses of all controllers."""
        return self._controllers

    async def follow(self, address: str, tell: Callable[[dict[str, Group]], None]) -> None:
        """Lead, or wait until the leader is gone; ``tell`` hears the groups when they are read."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                if await self._keep_lease(address) or not self._term:
                    await self._campaign(address, tell)
            except EtcdFault as error:
                log.warning("etcd: error=%s", error)
                if loop.time() >= self._until:
                    self._step_down()
                    self._lease = 0
                await asyncio.sleep(RETRY_S)
                continue
            try:
                async with asyncio.timeout(CAMPAIGN_S):
                    await self._wake.wait()
            except TimeoutError:
                continue
            self._wake.clear()

    async def swap(self, name: str, old: Group | None, new: Group | None) -> bool:
        """Put a new state in the place of the old one, if this controller still leads."""
        term = self._term
        if not self.leads() or self._groups.get(name) != old:
            return False
        key = f"{self._prefix}groups/{name}"
        conditions = (
            Condition(self._leader_key, term, is_create=True),
            Condition(key, self._revisions.get(name, 0)),
        )
        value = None if new is None else msgspec.json.encode(new)
        try:
            outcome = await self._values.transact(conditions, Change(key, value))
        except EtcdFault as error:
            log.warning("change may or may not be made: group=%s error=%s", name, error)
            self._step_down()
            return False
        if not outcome.made or self._term != term:
            self._step_down()
            return False
        if new is None:
            self._groups.pop(name, None)
            self._revisions.pop(name, None)
        else:
            self._groups[name] = new
            self._revisions[name] = outcome.revision
        return True

    async def aclose(self) -> None:
        """Let another controller lead at once."""
        self._term = 0
        try:
            if self._lease:
                await self._values.revoke(self._lease)
        except EtcdFault as error:
            log.info("lease is not given back: error=%s", error)
        await self._values.aclose()

    async def _keep_lease(self, address: str) -> bool:
        """Keep the lease alive if it is time, or get one; whether either was done."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._lease and now < self._until - TTL_S * 2 / 3:
            return False
        if self._lease and await self._values.refresh(self._lease):
            self._until = now + TTL_S - MARGIN_S
            return True
        self._step_down()
        self._lease = 0
        lease = await self._values.lease(TTL_S)
        await self._values.transact((), Change(f"{self._prefix}controllers/{address}", b"", lease))
        self._lease, self._until = lease, now + TTL_S - MARGIN_S
        return True

    async def _campaign(self, address: str, tell: Callable[[dict[str, Group]], None]) -> None:
        """Take the leader's key if nobody holds it; read everything in the same moment."""
        outcome = await self._values.transact(
            (Condition(self._leader_key, 0, is_create=True),),
            Change(self._leader_key, address.encode(), self._lease),
            prefix=self._prefix,
        )
        groups, revisions = self._read(outcome.rows)
        leader = next((row for row in outcome.rows if row.key == self._leader_key), None)
        self._leader = "" if leader is None else leader.value.decode()
        if leader is not None and self._term == leader.created:
            return  # as before; what is in memory is newer than what was read
        self._groups, self._revisions = groups, revisions
        # Ours although it was not made now: an earlier try, whose answer did not arrive.
        if leader is not None and leader.lease == self._lease:
            self._term = leader.created
            log.warning("this controller leads: address=%s revision=%s", address, leader.created)
        tell(dict(groups))

    def _read(self, rows: Sequence[Row]) -> tuple[dict[str, Group], dict[str, int]]:
        groups: dict[str, Group] = {}
        revisions: dict[str, int] = {}
        start = f"{self._prefix}groups/"
        self._controllers = [
            row.key.removeprefix(f"{self._prefix}controllers/")
            for row in rows
            if row.key.startswith(f"{self._prefix}controllers/")
        ]
        for row in rows:
            if row.key.startswith(start):
                name = row.key.removeprefix(start)
                try:
                    groups[name] = msgspec.json.decode(row.value, type=Group)
                except msgspec.DecodeError as error:
                    raise EtcdFault(f"{row.key} in etcd is not a group: {error}") from error
                revisions[name] = row.modified
        return groups, revisions

    def _step_down(self) -> None:
        self._term = 0
        self._leader = ""
        self._wake.set()


def split_ledger(text: str) -> tuple[list[tuple[str, int]], str]:
    """``etcd://host:port,…[/prefix]`` as endpoints and prefix."""
    hosts, _, prefix = text.removeprefix(SCHEME).partition("/")
    endpoints = []
    for part in hosts.split(","):
        try:
            endpoints.append(split_address(part))
        except ValueError:
            raise ConfigError(
                f"controllerLedger: {part!r} is no host:port; "
                "expected etcd://host:2379,host:2379/prefix"
            ) from None
    return endpoints, prefix.strip("/") or "contrail"
