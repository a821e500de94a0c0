"""Producers that are connected, by group and by client id.

The broker needs them to ask about open transactions (any live client of the group) and to push
replies (the client id that asked).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from contrailmq.broker.tables.link import ClientLink
from contrailmq.clock import Clock
from contrailmq.errors import SystemBusy

MEMBERS_MAX: Final = 200_000


@dataclass(slots=True, eq=False)
class ProducerMember:
    """One client of a producer group."""

    connection: ClientLink
    client_id: str
    language: str
    version: int
    seen_ms: int
    seen_wall_ms: int


class ProducerTable:
    """All connected producers of a broker. Bounded by ``members_max`` memberships."""

    def __init__(self, clock: Clock, *, members_max: int = MEMBERS_MAX) -> None:
        self._clock = clock
        self._members_max = members_max
        self._count = 0
        self._groups: dict[str, dict[ClientLink, ProducerMember]] = {}
        self._groups_of: dict[ClientLink, dict[str, None]] = {}
        self._by_client: dict[str, ClientLink] = {}
        self._clients_of: dict[ClientLink, dict[str, None]] = {}

    def register(
        self, connection: ClientLink, client_id: str, group: str, *,
        language: str = "", version: int = 0,
    ) -> None:  # fmt: skip
        """Take a heartbeat."""
        now_ms, wall_ms = self._clock.monotonic_ms(), self._clock.now_ms()
        members = self._groups.get(group)
        member = members.get(connection) if members is not None else None
        if member is not None:
            member.seen_ms, member.seen_wall_ms = now_ms, wall_ms
            return
        if self._count >= self._members_max:
            raise SystemBusy(f"{self._count} producers are registered, at most {self._members_max}")
        if members is None:
            members = self._groups[group] = {}
        members[connection] = ProducerMember(
            connection, client_id, language, version, now_ms, wall_ms
        )
        self._groups_of.setdefault(connection, {})[group] = None
        self._by_client[client_id] = connection
        self._clients_of.setdefault(connection, {})[client_id] = None
        self._count += 1

    def unregister(self, connection: ClientLink, group: str) -> None:
        """A client says goodbye to a group."""
        members = self._groups.get(group)
        member = members.pop(connection, None) if members is not None else None
        if members is None or member is None:
            return
        self._count -= 1
        if not members:
            del self._groups[group]
        groups = self._groups_of[connection]
        groups.pop(group, None)
        if not groups:
            del self._groups_of[connection]
            for client_id in self._clients_of.pop(connection, ()):
                if self._by_client.get(client_id) is connection:
                    del self._by_client[client_id]

    def drop(self, connection: ClientLink) -> None:
        """A connection is gone."""
        for group in list(self._groups_of.get(connection, ())):
            self.unregister(connection, group)

    def expired(self, *, silent_ms: int) -> list[ClientLink]:
        """Connections with a member that has not been heard of for ``silent_ms``."""
        limit_ms = self._clock.monotonic_ms() - silent_ms
        late: dict[ClientLink, None] = {}
        for members in self._groups.values():
            for member in members.values():
                if member.seen_ms < limit_ms:
                    late[member.connection] = None
        return list(late)

    def find_client(self, client_id: str) -> ClientLink | None:
        """The connection of a client id, whatever its groups."""
        return self._by_client.get(client_id)

    def pick(self, group: str, rng: random.Random) -> ProducerMember | None:
        """Any live client of a group: whoever it is can answer for the group's transactions."""
        alive = [m for m in self._groups.get(group, {}).values() if not m.connection.closed]
        return rng.choice(alive) if alive else None

    def members(self, group: str) -> list[ProducerMember]:
        """The clients of a group."""
        return list(self._groups.get(group, {}).values())

    def groups(self) -> Iterator[tuple[str, list[ProducerMember]]]:
        """Every group with its clients, in the order they came."""
        for name, members in self._groups.items():
            yield name, list(members.values())

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"<ProducerTable groups={len(self._groups)} members={self._count}>"
