"""Which queues of a topic belong to which member of a consumer group.

Every member runs the same strategy over the same sorted lists and so comes to the same answer
without talking to the others; that is why the rules must equal Java's to the last queue when
members of both kinds share a group.  A strategy is a pure object: ``allocate`` gets the member's
own id, all queues and all member ids, both sorted.
"""

from __future__ import annotations

import bisect
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from contrailmq.errors import ClientError
from contrailmq.protocol.queue import MessageQueue


class Strategy(Protocol):
    """A rule that divides queues among the members of a group."""

    @property
    def name(self) -> str:
        """The name Java gives the rule; members of one group must agree on it."""
        ...

    def allocate(
        self, own_id: str, queues: Sequence[MessageQueue], ids: Sequence[str]
    ) -> list[MessageQueue]:
        """The queues of ``own_id``; ``queues`` and ``ids`` are sorted."""
        ...


class Average:
    """Neighbouring queues, as evenly as they divide (AllocateMessageQueueAveragely)."""

    name = "AVG"

    def allocate(
        self, own_id: str, queues: Sequence[MessageQueue], ids: Sequence[str]
    ) -> list[MessageQueue]:
        """A run of queues; the first members get the remainder."""
        if own_id not in ids:
            return []
        index, count, members = ids.index(own_id), len(queues), len(ids)
        rest = count % members
        size = 1 if count <= members else count // members + (1 if index < rest else 0)
        start = index * size if index < rest else index * size + rest
        return list(queues[start : start + size])


class Circle:
    """Queues dealt like cards (AllocateMessageQueueAveragelyByCircle)."""

    name = "AVG_BY_CIRCLE"

    def allocate(
        self, own_id: str, queues: Sequence[MessageQueue], ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Every n-th queue."""
        if own_id not in ids:
            return []
        return list(queues[ids.index(own_id) :: len(ids)])


class Config:
    """Always the queues it was given (AllocateMessageQueueByConfig)."""

    name = "CONFIG"

    def __init__(self, queues: Iterable[MessageQueue]) -> None:
        self._queues = list(queues)

    def allocate(
        self, own_id: str, queues: Sequence[MessageQueue], ids: Sequence[str]
    ) -> list[MessageQueue]:
        """The configured queues, whoever asks."""
        return list(self._queues)


class MachineRoom:
    """Queues of brokers named ``room@name`` in the given rooms, dealt in runs."""

    name = "MACHINE_ROOM"

    def __init__(self, rooms: Iterable[str]) -> None:
        self._rooms = frozenset(rooms)

    def allocate(
        self, own_id: str, queues: Sequence[MessageQueue], ids: Sequence[str]
    ) -> list[MessageQueue]:
        """A run of the rooms' queues, and one of the remainder for the first members."""
        if own_id not in ids:
            return []
        near = [queue for queue in queues if self._is_near(queue)]
        size, rest = divmod(len(near), len(ids))
        index = ids.index(own_id)
        mine = near[index * size : (index + 1) * size]
        if rest > index:
            mine.append(near[index + size * len(ids)])
        return mine

    def _is_near(self, queue: MessageQueue) -> bool:
        parts = queue.broker_name.split("@")
        return len(parts) == 2 and parts[0] in self._rooms


class NearbyMachineRoom:
    """An inner strategy inside each room; rooms without consumers are shared by all.

    ``broker_room`` and ``consumer_room`` name the room of a queue and of a member id.
    """

    def __init__(
        self,
        inner: Strategy,
        *,
        broker_room: Callable[[MessageQueue], str],
        consumer_room: Callable[[str], str],
    ) -> None:
        self._inner = inner
        self._broker_room = broker_room
        self._consumer_room = consumer_room
        self.name = f"MACHINE_ROOM_NEARBY-{inner.name}"

    def allocate(
        self, own_id: str, queues: Sequence[MessageQueue], ids: Sequence[str]
    ) -> list[MessageQueue]:
        """The inner strategy's share of the own room, then of each room without consumers."""
        if own_id not in ids:
            return []
        queues_of: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            queues_of.setdefault(_room(self._broker_room(queue), queue), []).append(queue)
        ids_of: dict[str, list[str]] = {}
        for member in ids:
            ids_of.setdefault(_room(self._consumer_room(member), member), []).append(member)
        own_room = self._consumer_room(own_id)
        mine = self._inner.allocate(own_id, queues_of.get(own_room, []), ids_of[own_room])
        for room in sorted(queues_of):
            if room not in ids_of:
                mine += self._inner.allocate(own_id, queues_of[room], ids)
        return mine


class ConsistentHash:
    """A ring of hashed members: a member that comes or goes moves few queues."""

    name = "CONSISTENT_HASH"

    def __init__(self, virtual_nodes: int = 10) -> None:
        if virtual_nodes < 0:
            raise ClientError(f"virtual_nodes is {virtual_nodes}, at least 0")
        self._virtual_nodes = virtual_nodes

    def allocate(
        self, own_id: str, queues: Sequence[MessageQueue], ids: Sequence[str]
    ) -> list[MessageQueue]:
        """The queues whose hash meets one of the member's nodes first."""
        if own_id not in ids:
            return []
        ring: dict[int, str] = {}
        for member in ids:
            for node in range(self._virtual_nodes):
                ring[ring_hash(f"{member}-{node}")] = member
        points = sorted(ring)
        if not points:
            return []
        mine = []
        for queue in queues:
            place = bisect.bisect_left(points, ring_hash(str(queue))) % len(points)
            if ring[points[place]] == own_id:
                mine.append(queue)
        return mine


def ring_hash(key: str) -> int:
    """The first four bytes of the MD5, unsigned (ConsistentHashRouter's MD5Hash)."""
    digest = hashlib.md5(key.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big")


STRATEGIES: Mapping[str, Callable[[], Strategy]] = {
    "AVG": Average,
    "AVG_BY_CIRCLE": Circle,
    "CONSISTENT_HASH": ConsistentHash,
}


def strategy_of(strategy: str | Strategy) -> Strategy:
    """A strategy by Java's name, or the object itself."""
    if not isinstance(strategy, str):
        return strategy
    if strategy not in STRATEGIES:
        known = ", ".join(STRATEGIES)
        raise ClientError(
            f"no allocation strategy {strategy!r}; by name there are {known},"
            " others are given as objects (contrailmq.client.allocate)"
        )
    return STRATEGIES[strategy]()


def _room(room: str, whose: object) -> str:
    if not room:
        raise ClientError(f"no machine room is known for {whose}")
    return room
