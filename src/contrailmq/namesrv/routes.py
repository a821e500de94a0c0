"""Which brokers there are, and which topics they have: the name server's table, pure.

Theory of operation.  A broker name (``broker-a``) has one address per broker id; id 0 is the
primary, the others are its replicas.  Every address that registered has a *lease*: when it last
spoke, how long it may be silent, the version of its topics, and the connection it speaks on (any
hashable value here).  A lease ends by unregistration, by its connection closing, or by silence; its
address goes with it, a broker name without addresses goes, and with it all its queues.

Topics are taken from the primary (and from the replica with the smallest id where there is no
primary), and only when its version differs from the one its lease has, so that repeating a
registration costs little.  A registration with some of the topics adds to the others.

Nothing here waits, reads a clock or logs: methods are given the time, change the table and say what
is to be done.  A registration is refused whole or taken whole.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Final

from contrailmq.errors import SystemFailure
from contrailmq.namesrv.registration import (
    Address,
    Bounds,
    Lease,
    MinIdChange,
    Registered,
    Registration,
)
from contrailmq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from contrailmq.protocol.bodies.topic import PERM_READ, PERM_WRITE
from contrailmq.protocol.bodies.version import DataVersion
from contrailmq.protocol.names import MASTER_ID

LEASE_MS: Final = 120_000  # RouteInfoManager.DEFAULT_BROKER_CHANNEL_EXPIRED_TIME
MEMBER_GROUP_PREFIX: Final = "rmq_sys_SYNC_BROKER_MEMBER_"


class Routes:
    """The table. ``delete_missing``: a registration also removes the topics it does not name."""

    def __init__(self, bounds: Bounds | None = None) -> None:
        self._bounds = bounds if bounds is not None else Bounds()
        self._brokers: dict[str, BrokerData] = {}
        self._clusters: dict[str, dict[str, None]] = {}
        self._topics: dict[str, dict[str, QueueData]] = {}
        self._mappings: dict[str, dict[str, Any]] = {}
        self._leases: dict[Address, Lease] = {}
        self._filters: dict[Address, list[str]] = {}
        self._owned: dict[Hashable, dict[Address, None]] = {}

    # -- brokers come and go

    def register(
        self, new: Registration, now_ms: int, *, delete_missing: bool = False
    ) -> Registered:
        """Take a registration, or raise SystemFailure and change nothing."""
        self._check_bounds(new)
        broker = self._brokers.get(new.broker_name)
        held = dict(broker.broker_addrs) if broker is not None else {}
        min_before = min(held, default=MASTER_ID)
        # One address has one id: a replica that became the primary is not also a replica.
        addresses = {i: a for i, a in held.items() if a != new.address or i == new.broker_id}
        other = addresses.get(new.broker_id)
        if other is not None and other != new.address:
            lease = self._leases.get((new.cluster, other))
            if lease is not None and lease.version.state_version > new.version.state_version:
                self.unregister(new.cluster, new.address, new.broker_name)
                return Registered(is_ignored=True)
        if new.refuse_single_topic and new.broker_id not in addresses and len(new.topics) == 1:
            # So looks the increment of a broker we have not seen whole yet (a restart of ours).
            raise SystemFailure("register broker failed")
        self._leave_old_name(new)
        is_first = new.broker_id not in addresses
        if broker is None:
            broker = BrokerData(cluster=new.cluster, broker_name=new.broker_name, broker_addrs={})
            self._brokers[new.broker_name] = broker
        self._clusters.setdefault(new.cluster, {})[new.broker_name] = None
        broker.enable_acting_master = bool(new.acting_master)
        broker.zone_name = new.zone
        addresses[new.broker_id] = new.address
        broker.broker_addrs = dict(sorted(addresses.items()))
        self._take_topics(new, broker, is_first=is_first, delete_missing=delete_missing)
        is_new = self._begin_lease(new, now_ms)
        change = None
        if new.broker_id < min_before:
            change = _min_id_change(broker, offline=None, ha_address=new.ha_address)
        primary, primary_ha = self._primary_of(new, broker)
        return Registered(
            primary_address=primary, primary_ha_address=primary_ha, is_new=is_new, change=change
        )

    def unregister(self, cluster: str, address: str, broker_name: str) -> MinIdChange | None:
        """An address is gone; what depended on it goes with it."""
        lease = self._end_lease((cluster, address))
        name = lease.broker_name if lease is not None else broker_name
        broker = self._brokers.get(name)
        if broker is None or self._is_alive(address, name):
            return None
        min_before = min(broker.broker_addrs, default=MASTER_ID)
        left = {i: a for i, a in broker.broker_addrs.items() if a != address}
        broker.broker_addrs = left
        self._leave_clusters(broker)
        if not left:
            del self._brokers[name]
            self._remove_queues(name, list(self._topics))
            return None
        if broker.enable_acting_master and MASTER_ID not in left:
            for queues in self._topics.values():
                if name in queues:
                    queues[name].perm &= ~PERM_WRITE
        if min(left) != min_before and broker.enable_acting_master:
            return _min_id_change(broker, offline=address, ha_address=None)
        return None

    def heard(self, cluster: str, address: str, now_ms: int) -> bool:
        """An address is alive; False if it never registered."""
        lease = self._leases.get((cluster, address))
        if lease is None:
            return False
        lease.heard_ms = now_ms
        return True

    def version(self, cluster: str, address: str) -> DataVersion | None:
        """The version of the topics this address last registered."""
        lease = self._leases.get((cluster, address))
        return lease.version if lease is not None else None

    def expired(self, now_ms: int) -> list[tuple[Address, Lease]]:
        """The leases whose holders were silent for too long."""
        return [
            (place, lease)
            for place, lease in self._leases.items()
            if lease.heard_ms + lease.lease_ms < now_ms
        ]

    def owned_by(self, owner: Hashable) -> list[tuple[Address, Lease]]:
        """The leases held over one connection."""
        return [(place, self._leases[place]) for place in self._owned.get(owner, ())]

    # -- topics

    def add_topic(self, topic: str, queues: Iterable[QueueData]) -> bool:
        """Add routes to a topic; False, and nothing changed, if one names an unknown broker."""
        found = list(queues)
        if not found or any(queue.broker_name not in self._brokers for queue in found):
            return False
        self._check_room({topic})
        self._topics.setdefault(topic, {}).update({queue.broker_name: queue for queue in found})
        return True

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Forget a topic, or only its queues of one cluster."""
        if not cluster:
            self._topics.pop(topic, None)
            self._mappings.pop(topic, None)
            return
        for name in list(self._clusters.get(cluster, ())):
            self._remove_queues(name, [topic])

    def wipe_write(self, broker_name: str) -> int:
        """No topic of a broker may be written; returns how many topics it has."""
        return self._change_perm(broker_name, lambda perm: perm & ~PERM_WRITE)

    def add_write(self, broker_name: str) -> int:
        """All topics of a broker may be read and written; returns how many it has."""
        return self._change_perm(broker_name, lambda _: PERM_READ | PERM_WRITE)

    def find_route(self, topic: str, *, acting_master: bool = False) -> TopicRouteData | None:
        """Where a topic lives, as a value of its own; None if nowhere."""
        queues = self._topics.get(topic)
        if not queues:
            return None
        names = sorted(name for name in queues if name in self._brokers)
        if not names:
            return None
        brokers = [_copy(self._brokers[name]) for name in names]
        if acting_master and not topic.startswith(MEMBER_GROUP_PREFIX):
            for broker in brokers:
                _let_replica_act(broker, queues[broker.broker_name])
        filters: dict[str, list[str]] = {}
        for broker in brokers if self._filters else ():
            for address in broker.broker_addrs.values():
                servers = self._filters.get((broker.cluster, address))
                if servers:
                    filters[address] = servers
        return TopicRouteData(
            broker_datas=brokers,
            filter_server_table=filters,
            queue_datas=[queues[name] for name in sorted(queues)],
            topic_queue_mapping_by_broker=self._mappings.get(topic),
        )

    # -- views: live objects, to be encoded at once and not kept

    @property
    def topics(self) -> Mapping[str, Mapping[str, QueueData]]:
        """Queues by broker name by topic."""
        return self._topics

    @property
    def brokers(self) -> Mapping[str, BrokerData]:
        """Brokers by name."""
        return self._brokers

    @property
    def clusters(self) -> Mapping[str, Mapping[str, None]]:
        """Broker names by cluster."""
        return self._clusters

    @property
    def leases(self) -> Mapping[Address, Lease]:
        """Who is alive."""
        return self._leases

    # -- parts

    def _check_bounds(self, new: Registration) -> None:
        bounds = self._bounds
        names = (new.cluster, new.broker_name, new.address, new.ha_address, *new.topics)
        for name in names:
            if len(name) > bounds.name_size_max:
                raise SystemFailure(
                    f"a name of {len(name)} characters, at most {bounds.name_size_max}"
                )
        place = (new.cluster, new.address)
        if place not in self._leases and len(self._leases) >= bounds.brokers_max:
            raise SystemFailure(
                f"{len(self._leases)} brokers are registered, at most {bounds.brokers_max}"
            )
        if new.filters is not None and len(new.filters) > bounds.filters_max:
            raise SystemFailure(
                f"{len(new.filters)} filter servers of one broker, at most {bounds.filters_max}"
            )
        self._check_room(new.topics)

    def _check_room(self, topics: Iterable[str]) -> None:
        count = len(self._topics) + sum(topic not in self._topics for topic in topics)
        if count > self._bounds.topics_max:
            raise SystemFailure(f"{count} topics, at most {self._bounds.topics_max}")

    def _take_topics(
        self, new: Registration, broker: BrokerData, *, is_first: bool, delete_missing: bool
    ) -> None:
        is_primary = new.broker_id == MASTER_ID
        is_prime_replica = (
            not is_primary
            and new.acting_master is not None
            and new.broker_id == min(broker.broker_addrs)
        )
        if not (is_primary or is_prime_replica):
            return
        # An increment names one topic and says nothing about the others.
        if delete_missing and not new.mappings and len(new.topics) != 1:
            gone = [t for t in self._topics if t not in new.topics]
            self._remove_queues(new.broker_name, gone)
        has_changed = is_first or self.version(new.cluster, new.address) != new.version
        wiped = PERM_WRITE if is_prime_replica and new.acting_master else 0
        for topic in new.topics.values():
            queues = self._topics.setdefault(topic.topic_name, {})
            if has_changed or new.broker_name not in queues:
                queues[new.broker_name] = QueueData(
                    broker_name=new.broker_name,
                    perm=topic.perm & ~wiped,
                    read_queue_nums=topic.read_queue_nums,
                    topic_sys_flag=topic.topic_sys_flag,
                    write_queue_nums=topic.write_queue_nums,
                )
        if has_changed:
            for name, mapping in new.mappings.items():
                owner = mapping.get("bname") if isinstance(mapping, dict) else None
                self._mappings.setdefault(name, {})[str(owner or new.broker_name)] = mapping

    def _begin_lease(self, new: Registration, now_ms: int) -> bool:
        place = (new.cluster, new.address)
        before = self._leases.get(place)
        if before is not None:
            self._disown(place, before.owner)
        self._leases[place] = Lease(
            broker_name=new.broker_name,
            heard_ms=now_ms,
            lease_ms=LEASE_MS if new.lease_ms is None else new.lease_ms,
            version=new.version,
            ha_address=new.ha_address,
            owner=new.owner,
        )
        self._owned.setdefault(new.owner, {})[place] = None
        if new.filters:
            self._filters[place] = new.filters
        elif new.filters is not None:
            self._filters.pop(place, None)
        return before is None

    def _end_lease(self, place: Address) -> Lease | None:
        lease = self._leases.pop(place, None)
        self._filters.pop(place, None)
        if lease is not None:
            self._disown(place, lease.owner)
        return lease

    def _is_alive(self, address: str, broker_name: str) -> bool:
        """Whether an address holds a lease for this name in any cluster."""
        return any(
            place[1] == address and lease.broker_name == broker_name
            for place, lease in self._leases.items()
        )

    def _leave_old_name(self, new: Registration) -> None:
        """A broker that was renamed is no longer found under its old name."""
        lease = self._leases.get((new.cluster, new.address))
        if lease is not None and lease.broker_name != new.broker_name:
            self.unregister(new.cluster, new.address, lease.broker_name)

    def _disown(self, place: Address, owner: Hashable) -> None:
        places = self._owned.get(owner)
        if places is not None:
            places.pop(place, None)
            if not places:
                del self._owned[owner]

    def _primary_of(self, new: Registration, broker: BrokerData) -> tuple[str | None, str | None]:
        primary = broker.broker_addrs.get(MASTER_ID)
        if new.broker_id == MASTER_ID or primary is None:
            return None, None
        lease = self._leases.get((new.cluster, primary))
        return (primary, lease.ha_address) if lease is not None else (None, None)

    def _leave_clusters(self, broker: BrokerData) -> None:
        """A name stays in a cluster as long as one of its addresses is alive there."""
        held = set(broker.broker_addrs.values())
        alive = [cluster for cluster, address in self._leases if address in held]
        for cluster in [c for c, names in self._clusters.items() if broker.broker_name in names]:
            if cluster not in alive:
                del self._clusters[cluster][broker.broker_name]
                if not self._clusters[cluster]:
                    del self._clusters[cluster]
        if alive and broker.cluster not in alive:
            broker.cluster = alive[0]

    def _remove_queues(self, broker_name: str, topics: Iterable[str]) -> None:
        for topic in topics:
            queues = self._topics.get(topic)
            if queues is None:
                continue
            queues.pop(broker_name, None)
            mappings = self._mappings.get(topic)
            if mappings is not None:
                mappings.pop(broker_name, None)
            if not queues:
                del self._topics[topic]
                self._mappings.pop(topic, None)

    def _change_perm(self, broker_name: str, change: Callable[[int], int]) -> int:
        count = 0
        for queues in self._topics.values():
            queue = queues.get(broker_name)
            if queue is not None:
                queue.perm = change(queue.perm)
                count += 1
        return count


def _copy(broker: BrokerData) -> BrokerData:
    return BrokerData(
        broker_addrs=dict(broker.broker_addrs),
        broker_name=broker.broker_name,
        cluster=broker.cluster,
        enable_acting_master=broker.enable_acting_master,
        zone_name=broker.zone_name,
    )


def _let_replica_act(broker: BrokerData, queue: QueueData) -> None:
    """Without a primary, the replica with the smallest id is shown in its place, for reading."""
    addresses = broker.broker_addrs
    if not addresses or MASTER_ID in addresses or not broker.enable_acting_master:
        return
    if not queue.perm & PERM_WRITE:
        broker.broker_addrs = {MASTER_ID: addresses.pop(min(addresses)), **addresses}


def _min_id_change(
    broker: BrokerData, *, offline: str | None, ha_address: str | None
) -> MinIdChange:
    addresses = broker.broker_addrs
    smallest = min(addresses)
    tell_all = offline is not None or len(addresses) == 1
    return MinIdChange(
        broker_name=broker.broker_name,
        min_id=smallest,
        min_address=addresses[smallest],
        offline_address=offline,
        ha_address=ha_address,
        targets=tuple(a for i, a in addresses.items() if tell_all or i != smallest),
    )
