"""Consumers that are connected: which client of which group, on which connection, wanting what.

The identity of a member is its connection; a client id that appears on a new connection replaces
the old one.  A group's subscriptions are those of the last heartbeat of any of its clients: per
topic the larger ``subVersion`` wins, and topics no longer named are dropped (ConsumerGroupInfo).
Tables here decide and report; whoever calls them sends the notifications.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from contrailmq.broker.tables.link import ClientLink
from contrailmq.broker.tables.revision import Revision
from contrailmq.clock import Clock
from contrailmq.errors import SystemBusy
from contrailmq.protocol.bodies.heartbeat import SubscriptionData

GROUPS_MAX: Final = 100_000
MEMBERS_MAX: Final = 100_000
SUBSCRIPTIONS_MAX: Final = 10_000
BROADCASTING: Final = "BROADCASTING"


@dataclass(slots=True, eq=False)
class Member:
    """One client of a group."""

    connection: ClientLink
    client_id: str
    language: str
    version: int
    seen_ms: int


@dataclass(slots=True, kw_only=True)
class Membership:
    """What a heartbeat says about one group."""

    group: str
    consume_type: str = ""
    message_model: str = ""
    consume_from_where: str = ""
    subscriptions: list[SubscriptionData] | None = None  # None: as before (heartbeat V2)


class ConsumerGroup:
    """The connected clients of one group, and what they want."""

    __slots__ = (
        "consume_from_where",
        "consume_type",
        "members",
        "message_model",
        "name",
        "subscriptions",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.consume_type = ""
        self.message_model = ""
        self.consume_from_where = ""
        self.members: dict[ClientLink, Member] = {}
        self.subscriptions: dict[str, SubscriptionData] = {}

    @property
    def is_broadcasting(self) -> bool:
        """Whether every client gets every message."""
        return self.message_model == BROADCASTING

    def client_ids(self) -> list[str]:
        """The ids of the connected clients."""
        return [member.client_id for member in self.members.values()]

    def __repr__(self) -> str:
        return f"<ConsumerGroup {self.name} members={len(self.members)}>"


class ConsumerTable:
    """All connected consumers of a broker."""

    def __init__(self, clock: Clock, revision: Revision, *, groups_max: int = GROUPS_MAX) -> None:
        self._clock = clock
        self._revision = revision
        self._groups_max = groups_max
        self._groups: dict[str, ConsumerGroup] = {}
        self._groups_of: dict[ClientLink, dict[str, None]] = {}

    def register(
        self, connection: ClientLink, client_id: str, membership: Membership, *,
        language: str = "", version: int = 0,
    ) -> bool:  # fmt: skip
        """Take a heartbeat; True when the other clients of the group have to rebalance."""
        group = self._groups.get(membership.group)
        subscriptions = membership.subscriptions
        if subscriptions is not None and len(subscriptions) > SUBSCRIPTIONS_MAX:
            raise SystemBusy(
                f"{len(subscriptions)} subscriptions in one group, at most {SUBSCRIPTIONS_MAX}"
            )
        if group is None:
            if len(self._groups) >= self._groups_max:
                raise SystemBusy(f"{len(self._groups)} groups consume, at most {self._groups_max}")
            group = self._groups[membership.group] = ConsumerGroup(membership.group)
            self._revision.bump()
        joined = self._join(group, connection, client_id, language=language, version=version)
        if subscriptions is None:
            return joined
        model_changed = group.message_model != membership.message_model
        group.consume_type = membership.consume_type
        group.message_model = membership.message_model
        group.consume_from_where = membership.consume_from_where
        changed = self._subscribe(group, subscriptions)
        if model_changed:
            self._revision.bump()
        return joined or changed

    def unregister(self, connection: ClientLink, client_id: str, group: str) -> bool:
        """A client says goodbye; True when others are left who have to rebalance."""
        found = self._groups.get(group)
        if found is None:
            return False
        member = found.members.get(connection)
        if member is None:
            member = next((m for m in found.members.values() if m.client_id == client_id), None)
        if member is None:
            return False
        return self._leave(found, member.connection)

    def drop(self, connection: ClientLink) -> list[str]:
        """A connection is gone; returns the groups whose other clients have to rebalance."""
        groups = self.groups_of(connection)
        return [name for name in groups if self._leave(self._groups[name], connection)]

    def expired(self, *, silent_ms: int) -> list[ClientLink]:
        """Connections with a member that has not been heard of for ``silent_ms``."""
        limit_ms = self._clock.monotonic_ms() - silent_ms
        late: dict[ClientLink, None] = {}
        for group in self._groups.values():
            for member in group.members.values():
                if member.seen_ms < limit_ms:
                    late[member.connection] = None
        return list(late)

    def find(self, group: str) -> ConsumerGroup | None:
        """The connected clients of a group; None when there are none."""
        return self._groups.get(group)

    def find_member(self, group: str, client_id: str) -> Member | None:
        """One client of a group."""
        found = self._groups.get(group)
        if found is None:
            return None
        return next((m for m in found.members.values() if m.client_id == client_id), None)

    def has_member(self, group: str, connection: ClientLink) -> bool:
        """Whether a connection belongs to a group."""
        found = self._groups.get(group)
        return found is not None and connection in found.members

    def groups_of(self, connection: ClientLink) -> list[str]:
        """The groups a connection belongs to."""
        return list(self._groups_of.get(connection, ()))

    def groups_of_topic(self, topic: str) -> list[str]:
        """The connected groups that subscribe to a topic."""
        return [group.name for group in self._groups.values() if topic in group.subscriptions]

    def groups(self) -> Iterator[ConsumerGroup]:
        """Every connected group, in the order they came."""
        yield from self._groups.values()

    def _join(
        self,
        group: ConsumerGroup,
        connection: ClientLink,
        client_id: str,
        *,
        language: str,
        version: int,
    ) -> bool:
        now_ms = self._clock.monotonic_ms()
        member = group.members.get(connection)
        if member is not None and member.client_id == client_id:
            member.seen_ms = now_ms
            return False
        if member is None and len(group.members) >= MEMBERS_MAX:
            raise SystemBusy(f"{len(group.members)} clients in one group, at most {MEMBERS_MAX}")
        for other in [m for m in group.members.values() if m.client_id == client_id]:
            self._forget_member(group, other.connection)
        group.members[connection] = Member(connection, client_id, language, version, now_ms)
        self._groups_of.setdefault(connection, {})[group.name] = None
        return True

    def _subscribe(self, group: ConsumerGroup, wanted: Iterable[SubscriptionData]) -> bool:
        table = group.subscriptions
        changed = False
        touched = False
        topics: set[str] = set()
        for subscription in wanted:
            topic = subscription.topic
            topics.add(topic)
            known = table.get(topic)
            if known is None:
                changed = True
            elif subscription.sub_version <= known.sub_version:
                continue
            table[topic] = subscription
            touched = True
        for topic in [topic for topic in table if topic not in topics]:
            del table[topic]
            changed = True
        if changed or touched:
            self._revision.bump()
        return changed

    def _leave(self, group: ConsumerGroup, connection: ClientLink) -> bool:
        self._forget_member(group, connection)
        if group.members:
            return True
        del self._groups[group.name]
        self._revision.bump()
        return False

    def _forget_member(self, group: ConsumerGroup, connection: ClientLink) -> None:
        group.members.pop(connection, None)
        groups = self._groups_of.get(connection)
        if groups is not None:
            groups.pop(group.name, None)
            if not groups:
                del self._groups_of[connection]

    def __len__(self) -> int:
        return len(self._groups)

    def __repr__(self) -> str:
        return f"<ConsumerTable groups={len(self._groups)} peers={len(self._groups_of)}>"
