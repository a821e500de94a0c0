"""The state of replica groups and the rules by which it changes; nothing here waits or sends.

A group has brokers by id, perhaps a primary, an epoch that grows with every election, and the
in-sync set with an epoch of its own.  A rule takes the group as it is and who lives, and returns
the group as it becomes, or refuses with the code of the original.  A failed election takes the
primary away and adds one to its epoch, as in the original: no broker is primary then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from contrailmq.errors import BrokerError
from contrailmq.protocol.codes import ResponseCode

FIRST_ID: Final = 1
GROUPS_MAX: Final = 10_000
BROKERS_MAX: Final = 64


class Member(msgspec.Struct, frozen=True):
    """One broker of a group: where it is, and how it proved that its id is its own."""

    address: str
    check_code: str


class Group(msgspec.Struct, frozen=True):
    """One replica group."""

    cluster: str
    name: str
    brokers: dict[int, Member] = {}
    next_id: int = FIRST_ID
    primary: int | None = None
    epoch: int = 0
    in_sync: tuple[int, ...] = ()
    set_epoch: int = 0


class Life(NamedTuple):
    """What a broker's heartbeats said last."""

    epoch: int
    end: int
    priority: int


Lives = Mapping[int, Life]


def refuse(code: ResponseCode, text: str) -> BrokerError:
    """A refusal with its code."""
    return BrokerError(text, code=code)


def apply_id(group: Group, broker_id: int, check_code: str) -> Group:
    """Give a broker an id; the same one again for the same check code (1013)."""
    held = group.brokers.get(broker_id)
    if held is not None and held.check_code == check_code:
        return group
    if held is not None or broker_id != group.next_id or len(group.brokers) >= BROKERS_MAX:
        raise refuse(
            ResponseCode.CONTROLLER_BROKER_ID_INVALID,
            f"broker id {broker_id} of {group.name}: the next is {group.next_id}",
        )
    address = check_code.partition(";")[0]
    brokers = {**group.brokers, broker_id: Member(address, check_code)}
    return msgspec.structs.replace(group, brokers=brokers, next_id=broker_id + 1)


def register(group: Group, broker_id: int, address: str) -> Group:
    """A broker is here, perhaps at another address (1003)."""
    held = group.brokers.get(broker_id)
    if held is None:
        raise refuse(
            ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED,
            f"broker id {broker_id} of {group.name} is not known",
        )
    if held.address == address:
        return group
    moved = msgspec.structs.replace(held, address=address)
    return msgspec.structs.replace(group, brokers={**group.brokers, broker_id: moved})


def elect(
    group: Group, lives: Lives, *, asking: int = -1, designated: bool = False, unclean: bool = False
) -> Group:
    """Elect a primary; the same group when the old one lives (1002).

    A broker outside the in-sync set is elected only if ``unclean`` allows it.  Without a candidate
    nobody is primary.
    """
    if not group.epoch:  # there was never a primary: the one that asks
        return _with_primary(group, asking) if asking in group.brokers else group
    alive = [broker_id for broker_id in group.brokers if broker_id in lives]
    pools = [[broker_id for broker_id in alive if broker_id in group.in_sync]]
    if unclean:
        pools.append(alive)
    for pool in pools:
        if group.primary in pool and not designated:
            return group
        if designated:
            pool = [broker_id for broker_id in pool if broker_id == asking]
        if pool:
            best = max(pool, key=lambda broker_id: _rank(lives[broker_id], broker_id))
            return group if best == group.primary else _with_primary(group, best)
    if group.primary is None or designated:
        return group
    return msgspec.structs.replace(group, primary=None, epoch=group.epoch + 1)


def alter(
    group: Group | None, primary: int, epoch: int, *, members: list[int], set_epoch: int,
    is_alive: Callable[[int], bool],
) -> Group:  # fmt: skip
    """Change the in-sync set; only its primary may (1001)."""
    if group is None or sorted(group.in_sync) == sorted(set(members)):
        raise refuse(
            ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, "no such group, or no change"
        )
    if primary != group.primary:
        raise refuse(
            ResponseCode.CONTROLLER_INVALID_MASTER,
            f"{primary} is not the primary of {group.name}: {group.primary} is",
        )
    if epoch != group.epoch:
        raise refuse(
            ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH, f"epoch {epoch}: it is {group.epoch}"
        )
    if set_epoch != group.set_epoch:
        raise refuse(
            ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
            f"epoch {set_epoch} of the set: it is {group.set_epoch}",
        )
    for member in members:
        if member not in group.brokers:
            raise refuse(ResponseCode.CONTROLLER_INVALID_REPLICAS, f"{member} is no broker of it")
        if member not in group.in_sync and not is_alive(member):
            raise refuse(ResponseCode.CONTROLLER_BROKER_NOT_ALIVE, f"{member} is not alive")
    if primary not in members:
        raise refuse(
            ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, "a set without its primary"
        )
    return msgspec.structs.replace(
        group, in_sync=tuple(sorted(set(members))), set_epoch=group.set_epoch + 1
    )


def forget(
    group: Group, ids: list[int], *, is_alive: Callable[[int], bool], living_too: bool
) -> Group | None:
    """Forget brokers; None when none is left (1011)."""
    targets = ids or list(group.brokers)
    alive = [broker_id for broker_id in targets if is_alive(broker_id)]
    if alive and not living_too:
        raise refuse(
            ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA,
            f"{alive} of {group.name} are alive; stop them, or ask for living ones too",
        )
    brokers = {key: value for key, value in group.brokers.items() if key not in targets}
    if not brokers:
        return None
    in_sync = tuple(member for member in group.in_sync if member in brokers)
    primary = group.primary if group.primary in brokers else None
    epoch = group.epoch + (primary != group.primary)
    return msgspec.structs.replace(
        group,
        brokers=brokers,
        in_sync=in_sync,
        primary=primary,
        epoch=epoch,
        set_epoch=group.set_epoch + (in_sync != group.in_sync),
    )


def _with_primary(group: Group, broker_id: int) -> Group:
    return msgspec.structs.replace(
        group,
        primary=broker_id,
        epoch=group.epoch + 1,
        in_sync=(broker_id,),
        set_epoch=group.set_epoch + 1,
    )


def _rank(life: Life, broker_id: int) -> tuple[int, int, int, int]:
    """Who is elected: the newest epoch, then the longest log, then the smallest priority."""
    return life.epoch, life.end, -life.priority, -broker_id
