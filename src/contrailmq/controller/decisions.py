"""A controller at work: requests and the passing of time change groups, brokers are told.

One change at a time (``_turn``): what was read is what is replaced.  Every change is in the ledger
before it is answered or told.  Clocks decide only when a broker is thought dead; whether a change
holds is decided by epochs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from contrailmq.controller import groups as rules
from contrailmq.controller.groups import GROUPS_MAX, Group, Life, refuse
from contrailmq.controller.ledger import Ledger
from contrailmq.controller.settings import ControllerSettings
from contrailmq.errors import BrokerError
from contrailmq.protocol.codes import ResponseCode
from contrailmq.protocol.headers.route import BrokerHeartbeatRequest

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Pulse:
    """A broker that sends heartbeats."""

    life: Life
    until: float
    connection: object


class Decisions:
    """The groups of this controller. Owned by the loop."""

    def __init__(self, ledger: Ledger, settings: ControllerSettings) -> None:
        self._ledger = ledger
        self.settings = settings  # replaced when one is changed (1009)
        self._turn = asyncio.Lock()
        self._pulses: dict[tuple[str, int], Pulse] = {}
        self.groups: dict[str, Group] = {}
        self.on_primary: Callable[[Group, list[int]], None] = lambda group, alive: None
        self.leading = asyncio.Event()  # the lead was taken: look for dead primaries

    async def open(self) -> None:
        """Read the ledger."""
        self.groups = await self._ledger.open()

    def heard(self, groups: dict[str, Group]) -> None:
        """Take the groups as they are in a ledger of several controllers."""
        self.groups = groups
        if self.leads():
            self.leading.set()

    def leads(self) -> bool:
        """Whether this controller decides."""
        return self._ledger.leads()

    def must_lead(self) -> None:
        """Refuse what only the leader may answer."""
        if not self.leads():
            raise refuse(
                ResponseCode.CONTROLLER_NOT_LEADER,
                f"the leader is {self._ledger.leader() or 'not known yet'}; ask it (1005)",
            )

    def leader(self) -> str:
        """The address of the controller that leads."""
        return self._ledger.leader()

    def controllers(self) -> list[str]:
        """The addresses of all controllers."""
        return self._ledger.controllers()

    def find(self, name: str) -> Group | None:
        """A group, or None."""
        return self.groups.get(name)

    def is_alive(self, name: str, broker_id: int) -> bool:
        """Whether a broker's heartbeats come."""
        pulse = self._pulses.get((name, broker_id))
        return pulse is not None and pulse.until > asyncio.get_running_loop().time()

    def lives(self, group: Group) -> dict[int, Life]:
        """The brokers of a group that live."""
        return {
            broker_id: self._pulses[group.name, broker_id].life
            for broker_id in group.brokers
            if self.is_alive(group.name, broker_id)
        }

    def beat(self, header: BrokerHeartbeatRequest, connection: object) -> None:
        """A heartbeat (904); of brokers nobody registered nothing is kept."""
        group = self.groups.get(header.broker_name)
        if group is None or header.broker_id is None or header.broker_id not in group.brokers:
            return
        timeout_s = (header.heartbeat_timeout_mills or 10_000) / 1000
        priority = header.election_priority
        self._pulses[group.name, header.broker_id] = Pulse(
            Life(
                -1 if header.epoch is None else header.epoch,
                header.max_offset or 0,
                2**31 - 1 if priority is None else priority,
            ),
            asyncio.get_running_loop().time() + timeout_s,
            connection,
        )

    async def closed(self, connection: object) -> None:
        """A connection has ended: the broker that sent its heartbeats there is dead."""
        lost = [place for place, pulse in self._pulses.items() if pulse.connection is connection]
        for place in lost:
            del self._pulses[place]
        for name, broker_id in lost:
            log.info("broker has gone: name=%s id=%s", name, broker_id)
            group = self.groups.get(name)
            if group is not None and group.primary == broker_id:
                await self.replace_primary(name)

    async def scan(self) -> None:
        """Replace primaries that are not alive where somebody else is."""
        now = asyncio.get_running_loop().time()
        for place in [place for place, pulse in self._pulses.items() if pulse.until <= now]:
            del self._pulses[place]
        if not self.leads():
            return
        for name, group in list(self.groups.items()):
            is_led = group.primary is not None and self.is_alive(name, group.primary)
            if group.epoch and not is_led and self.lives(group):
                await self.replace_primary(name)

    async def replace_primary(self, name: str) -> None:
        """Elect another primary, if there is one; tell everybody."""
        if not self.leads():
            return
        try:
            await self.elect(name, asking=-1, designated=False)
        except BrokerError as error:
            log.warning("nobody is elected: name=%s reason=%s", name, error)

    async def apply_id(self, cluster: str, name: str, broker_id: int, check_code: str) -> Group:
        """Give an id."""

        def change(group: Group | None) -> Group:
            if group is None:
                if len(self.groups) >= GROUPS_MAX:
                    raise refuse(ResponseCode.SYSTEM_ERROR, f"{GROUPS_MAX} groups, at most")
                group = Group(cluster, name)
            return rules.apply_id(group, broker_id, check_code)

        return await self._change(name, change)

    async def register(self, name: str, broker_id: int, address: str) -> Group:
        """A broker has started: a primary that did may have lost the end of its log."""
        group = await self._change(
            name, lambda group: rules.register(_known(group, name), broker_id, address)
        )
        if group.primary == broker_id and any(
            member != broker_id and self.is_alive(name, member) for member in group.in_sync
        ):
            self._pulses.pop((name, broker_id), None)
            await self.replace_primary(name)
            group = _known(self.groups.get(name), name)
        return group

    async def alter(
        self, name: str, primary: int, epoch: int, *, members: list[int], set_epoch: int
    ) -> Group:
        """Change the in-sync set."""
        return await self._change(
            name,
            lambda group: rules.alter(
                group,
                primary,
                epoch,
                members=members,
                set_epoch=set_epoch,
                is_alive=lambda broker_id: self.is_alive(name, broker_id),
            ),
        )

    async def elect(self, name: str, *, asking: int, designated: bool) -> tuple[Group, bool]:
        """Elect a primary; whether another than before was."""
        before = self.groups.get(name)

        def change(group: Group | None) -> Group:
            known = _known(group, name)
            if asking >= 0 and asking not in known.brokers:
                raise refuse(
                    ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED,
                    f"broker id {asking} of {name} is not known",
                )
            lives = self.lives(known)
            if asking in known.brokers and not designated:
                lives.setdefault(asking, Life(-1, 0, 2**31 - 1))  # it asks: it lives
            return rules.elect(
                known, lives, asking=asking, designated=designated,
                unclean=self.settings.elects_unclean,
            )  # fmt: skip

        group = await self._change(name, change)
        is_new = before is None or before.epoch != group.epoch
        if group.primary is None:
            code = ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE
            raise refuse(
                code if asking < 0 else ResponseCode.CONTROLLER_ELECT_MASTER_FAILED,
                f"no broker of {name} that is in sync is alive",
            )
        if is_new:
            log.warning("primary elected: name=%s id=%s epoch=%s", name, group.primary, group.epoch)
            self.on_primary(group, list(self.lives(group)))
        elif designated and group.primary != asking:
            raise refuse(
                ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, f"broker {asking} is not in sync"
            )
        return group, is_new

    async def forget(self, name: str, ids: list[int], *, living_too: bool) -> None:
        """Forget brokers, or the whole group."""
        async with self._turn:
            group = _known(self.groups.get(name), name)
            new = rules.forget(
                group, ids, is_alive=lambda i: self.is_alive(name, i), living_too=living_too
            )
            await self._keep(name, group, new)

    async def _change(self, name: str, change: Callable[[Group | None], Group]) -> Group:
        async with self._turn:
            old = self.groups.get(name)
            new = change(old)
            if new != old:
                await self._keep(name, old, new)
            return new

    async def _keep(self, name: str, old: Group | None, new: Group | None) -> None:
        if not await self._ledger.swap(name, old, new):
            raise refuse(ResponseCode.CONTROLLER_NOT_LEADER, "another controller leads by now")
        if new is None:
            self.groups.pop(name, None)
        else:
            self.groups[name] = new


def _known(group: Group | None, name: str) -> Group:
    if group is None:
        raise refuse(
            ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, f"group {name} is not known"
        )
    return group
