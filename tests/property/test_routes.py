"""The route table against a model that is easy to believe: lists of who said what."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from contrailmq.errors import SystemFailure
from contrailmq.namesrv.registration import Bounds, Registration
from contrailmq.namesrv.routes import LEASE_MS, Routes
from contrailmq.protocol.bodies.topic import PERM_WRITE, TopicConfig
from contrailmq.protocol.bodies.version import DataVersion

TOPICS_MAX = 6
BROKERS_MAX = 5
CLUSTERS = ("east", "west")
NAMES = ("broker-a", "broker-b", "broker-c")
ADDRESSES = tuple(f"10.0.0.{n}:10911" for n in range(7))
TOPICS = tuple(f"T{n}" for n in range(8))


class RouteMachine(RuleBasedStateMachine):
    """Old brokers (no acting master), each address in one cluster: the rules of the original.

    The model: ``held[name][id] = address``, ``heard[address]``, ``queues[topic][name]``.
    """

    owners = Bundle("owners")

    def __init__(self) -> None:
        super().__init__()
        self.routes = Routes(Bounds(topics_max=TOPICS_MAX, brokers_max=BROKERS_MAX))
        self.now_ms = 1_000_000
        self.held: dict[str, dict[int, str]] = {}
        self.leases: dict[str, dict[str, Any]] = {}
        self.queues: dict[str, dict[str, tuple[int, int]]] = {}
        self.owner_count = 0

    @rule(target=owners)
    def connect(self) -> int:
        self.owner_count += 1
        return self.owner_count

    @rule(
        owner=owners,
        name=st.sampled_from(NAMES),
        broker_id=st.integers(0, 2),
        address=st.sampled_from(ADDRESSES),
        topics=st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 4), max_size=4),
        counter=st.integers(0, 3),
        lease_ms=st.sampled_from((None, 1_000, 30_000)),
        state_version=st.sampled_from((0, 0, 0, 1)),
        is_v5=st.booleans(),
    )
    def register(self, owner: int, name: str, broker_id: int, address: str, **said: Any) -> None:
        topics: dict[str, int] = said["topics"]
        version = DataVersion(counter=said["counter"], state_version=said["state_version"])
        new = Registration(
            cluster=_cluster_of(address),
            broker_name=name,
            address=address,
            broker_id=broker_id,
            lease_ms=said["lease_ms"],
            version=version,
            topics={
                t: TopicConfig(topic_name=t, read_queue_nums=n, write_queue_nums=n, perm=6)
                for t, n in topics.items()
            },
            owner=owner,
            refuse_single_topic=said["is_v5"],
        )
        before = self._snapshot()
        try:
            result = self.routes.register(new, self.now_ms)
        except SystemFailure as error:
            assert self._expected_refusal(new, error.remark), error.remark
            assert self._snapshot() == before, "a refused registration changed something"
            return
        assert not self._expected_refusal(new, None)
        ids = self.held.get(name, {})
        other = ids.get(broker_id)
        if other is not None and other != address:
            lease = self.leases.get(other)
            same_cluster = lease is not None and _cluster_of(other) == _cluster_of(address)
            if same_cluster and lease["version"].state_version > version.state_version:
                assert result.is_ignored
                self._forget(address)
                return
        assert not result.is_ignored
        old = self.leases.get(address)
        if old is not None and old["name"] != name:
            self._forget(address)
        changed = self.leases.get(address, {}).get("version") != version
        held = self.held.setdefault(name, {})
        is_first = broker_id not in {i for i, a in held.items() if a != address or i == broker_id}
        for taken in [i for i, a in held.items() if a == address and i != broker_id]:
            del held[taken]
        held[broker_id] = address
        self.leases[address] = {
            "name": name,
            "owner": owner,
            "heard": self.now_ms,
            "lease": LEASE_MS if said["lease_ms"] is None else said["lease_ms"],
            "version": version,
        }
        if broker_id == 0:
            for topic, count in topics.items():
                queues = self.queues.setdefault(topic, {})
                if changed or is_first or name not in queues:
                    queues[name] = (count, 6)
        primary = held.get(0)
        shows = broker_id != 0 and primary is not None and primary in self.leases
        shows = shows and _cluster_of(str(primary)) == _cluster_of(address)
        assert result.primary_address == (primary if shows else None)

    @rule(address=st.sampled_from(ADDRESSES), name=st.sampled_from(NAMES))
    def unregister(self, address: str, name: str) -> None:
        self.routes.unregister(_cluster_of(address), address, name)
        if address in self.leases:
            self._forget(address)
        else:
            self._drop(name, address)

    @rule(owner=owners)
    def close(self, owner: int) -> None:
        expected = {a for a, lease in self.leases.items() if lease["owner"] == owner}
        owned = self.routes.owned_by(owner)
        assert {address for (_, address), _ in owned} == expected
        for (cluster, address), lease in owned:
            self.routes.unregister(cluster, address, lease.broker_name)
            self._forget(address)
        assert self.routes.owned_by(owner) == []

    @rule(step_ms=st.sampled_from((100, 1_000, 29_999, 30_001, 120_001)))
    def time_passes(self, step_ms: int) -> None:
        self.now_ms += step_ms
        late = {
            a for a, lease in self.leases.items() if lease["heard"] + lease["lease"] < self.now_ms
        }
        expired = self.routes.expired(self.now_ms)
        assert {address for (_, address), _ in expired} == late
        for (cluster, address), lease in expired:
            self.routes.unregister(cluster, address, lease.broker_name)
            self._forget(address)

    @rule(address=st.sampled_from(ADDRESSES))
    def heard(self, address: str) -> None:
        known = self.routes.heard(_cluster_of(address), address, self.now_ms)
        assert known == (address in self.leases)
        if known:
            self.leases[address]["heard"] = self.now_ms

    @rule(topic=st.sampled_from(TOPICS), cluster=st.sampled_from((None, *CLUSTERS)))
    def delete_topic(self, topic: str, cluster: str | None) -> None:
        members = set(self.routes.clusters.get(cluster, ())) if cluster else set(NAMES)
        self.routes.delete_topic(topic, cluster)
        queues = self.queues.get(topic, {})
        for name in members & set(queues):
            del queues[name]
        if not queues:
            self.queues.pop(topic, None)

    @rule(name=st.sampled_from(NAMES), add=st.booleans())
    def change_write(self, name: str, add: bool) -> None:
        count = self.routes.add_write(name) if add else self.routes.wipe_write(name)
        affected = [queues for queues in self.queues.values() if name in queues]
        assert count == len(affected)
        for queues in affected:
            number, perm = queues[name]
            queues[name] = (number, 6 if add else perm & ~PERM_WRITE)

    @invariant()
    def the_table_is_the_model(self) -> None:
        held = {n: dict(sorted(ids.items())) for n, ids in self.held.items() if ids}
        assert {n: dict(b.broker_addrs) for n, b in self.routes.brokers.items()} == held
        assert {a for _, a in self.routes.leases} == set(self.leases)
        shown = {
            topic: {n: (q.read_queue_nums, q.perm) for n, q in queues.items()}
            for topic, queues in self.routes.topics.items()
        }
        assert shown == self.queues

    @invariant()
    def nothing_hangs_in_the_air(self) -> None:
        names = set(self.routes.brokers)
        in_clusters = [n for members in self.routes.clusters.values() for n in members]
        assert set(in_clusters) == names
        assert all(self.routes.clusters.values())
        assert all(self.routes.topics.values())
        alive = {address for _, address in self.routes.leases}
        for broker in self.routes.brokers.values():
            assert broker.broker_addrs
            assert set(broker.broker_addrs.values()) <= alive, "an address nobody would remove"
            assert broker.broker_name in self.routes.clusters[broker.cluster]
        for topic, queues in self.routes.topics.items():
            assert set(queues) <= names, "queues of a broker that is gone"
            route = self.routes.find_route(topic)
            assert route is not None
            assert [b.broker_name for b in route.broker_datas] == sorted(queues)
        assert len(self.routes.topics) <= TOPICS_MAX
        assert len(self.routes.leases) <= BROKERS_MAX

    def _expected_refusal(self, new: Registration, remark: str | None) -> bool:
        if new.address not in self.leases and len(self.leases) >= BROKERS_MAX:
            return remark is None or "brokers are registered" in remark
        fresh = [topic for topic in new.topics if topic not in self.queues]
        if len(self.queues) + len(fresh) > TOPICS_MAX:
            return remark is None or "topics, at most" in remark
        ids = self.held.get(new.broker_name, {})
        kept = {i for i, a in ids.items() if a != new.address or i == new.broker_id}
        other = ids.get(new.broker_id)
        if new.refuse_single_topic and new.broker_id not in kept and len(new.topics) == 1:
            return remark is None or remark == "register broker failed"
        assert other is None or new.broker_id in kept
        return False

    def _forget(self, address: str) -> None:
        lease = self.leases.pop(address, None)
        for name in [lease["name"]] if lease is not None else list(self.held):
            self._drop(name, address)

    def _drop(self, name: str, address: str) -> None:
        ids = self.held.get(name, {})
        for broker_id in [i for i, a in ids.items() if a == address]:
            del ids[broker_id]
        if not ids and name in self.held:
            del self.held[name]
            for queues in self.queues.values():
                queues.pop(name, None)
            self.queues = {topic: queues for topic, queues in self.queues.items() if queues}

    def _snapshot(self) -> Any:
        return (
            {n: dict(b.broker_addrs) for n, b in self.routes.brokers.items()},
            {t: {n: q.perm for n, q in qs.items()} for t, qs in self.routes.topics.items()},
            {place: (lease.heard_ms, lease.owner) for place, lease in self.routes.leases.items()},
            {c: list(n) for c, n in self.routes.clusters.items()},
        )


def _cluster_of(address: str) -> str:
    return CLUSTERS[ADDRESSES.index(address) % 2]


TestRoutes = RouteMachine.TestCase
TestRoutes.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
