"""The route table, rule by rule."""

from __future__ import annotations

from typing import Any

import pytest

from contrailmq.errors import SystemFailure
from contrailmq.namesrv.registration import Bounds, Registration
from contrailmq.namesrv.routes import Routes
from contrailmq.protocol.bodies.route import QueueData
from contrailmq.protocol.bodies.topic import TopicConfig
from contrailmq.protocol.bodies.version import DataVersion

A, B, C = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911"


def _said(address: str = A, **more: Any) -> Registration:
    topics = more.pop("topics", ("T1", "T2"))
    perm = more.pop("perm", 6)
    return Registration(
        cluster=more.pop("cluster", "c"),
        broker_name=more.pop("broker_name", "broker-a"),
        address=address,
        broker_id=more.pop("broker_id", 0),
        ha_address=more.pop("ha_address", f"{address}-ha"),
        topics={name: TopicConfig(topic_name=name, perm=perm) for name in topics},
        version=DataVersion(
            counter=more.pop("counter", 1), state_version=more.pop("state_version", 0)
        ),
        **more,
    )


def test_a_replica_learns_where_its_primary_is() -> None:
    routes = Routes()
    assert routes.register(_said(B, broker_id=1), 0).primary_address is None
    routes.register(_said(A), 0)
    found = routes.register(_said(B, broker_id=1), 0)
    assert (found.primary_address, found.primary_ha_address) == (A, f"{A}-ha")


def test_topics_of_an_old_replica_are_not_taken() -> None:
    routes = Routes()
    routes.register(_said(B, broker_id=1), 0)
    assert routes.topics == {}
    routes.register(_said(B, broker_id=1, acting_master=False, counter=2), 0)
    assert set(routes.topics) == {"T1", "T2"}  # 5.x: the smallest id speaks while nobody has id 0


def test_a_topic_changes_only_with_the_version_unless_it_is_missing() -> None:
    routes = Routes()
    routes.register(_said(perm=6), 0)
    routes.register(_said(perm=4, topics=("T1", "T2", "T3")), 0)
    assert {t: q["broker-a"].perm for t, q in routes.topics.items()} == {"T1": 6, "T2": 6, "T3": 4}
    routes.register(_said(perm=4, counter=2), 0)
    assert routes.topics["T1"]["broker-a"].perm == 4


def test_an_increment_adds_to_what_is_there() -> None:
    routes = Routes()
    routes.register(_said(), 0)
    routes.register(_said(topics=("T9",), counter=2, refuse_single_topic=True), 0)
    assert set(routes.topics) == {"T1", "T2", "T9"}


def test_a_single_first_topic_is_refused_for_5x_and_taken_from_49() -> None:
    routes = Routes()
    with pytest.raises(SystemFailure, match="register broker failed"):
        routes.register(_said(topics=("T1",), refuse_single_topic=True), 0)
    assert (dict(routes.brokers), dict(routes.clusters), dict(routes.leases)) == ({}, {}, {})
    routes.register(_said(topics=(), refuse_single_topic=True), 0)
    routes.register(_said(topics=("T1",), refuse_single_topic=True, counter=2), 0)
    assert set(routes.topics) == {"T1"}
    Routes().register(_said(topics=("T1",)), 0)


def test_an_older_state_does_not_take_an_id_from_a_newer_one() -> None:
    routes = Routes()
    routes.register(_said(A, state_version=5), 0)
    routes.register(_said(B, broker_id=1, state_version=4), 0)
    assert routes.register(_said(B, broker_id=0, state_version=4), 0).is_ignored
    assert routes.brokers["broker-a"].broker_addrs == {0: A}
    assert set(routes.leases) == {("c", A)}
    assert not routes.register(_said(B, state_version=5), 0).is_ignored
    assert routes.brokers["broker-a"].broker_addrs == {0: B}


def test_a_replica_that_becomes_the_primary_leaves_its_old_id() -> None:
    routes = Routes()
    routes.register(_said(B, broker_id=1), 0)
    routes.register(_said(B, broker_id=0), 0)
    assert routes.brokers["broker-a"].broker_addrs == {0: B}


def test_one_address_in_two_clusters_lives_as_long_as_one_of_its_leases() -> None:
    routes = Routes()
    routes.register(_said(A, cluster="c1"), 0)
    routes.register(_said(A, cluster="c2"), 0)
    routes.unregister("c1", A, "broker-a")
    assert routes.brokers["broker-a"].broker_addrs == {0: A}
    routes.unregister("c2", A, "broker-a")
    assert dict(routes.brokers) == {}
    assert dict(routes.clusters) == {}


def test_a_lease_ends_after_its_own_time() -> None:
    routes = Routes()
    routes.register(_said(A), 0)
    routes.register(_said(B, broker_name="b", lease_ms=1_000), 0)
    assert routes.expired(1_000) == []
    assert [place for place, _ in routes.expired(1_001)] == [("c", B)]
    assert routes.heard("c", B, 1_001)
    assert routes.expired(2_001) == []
    assert [place for place, _ in routes.expired(120_001)] == [("c", A), ("c", B)]
    assert not routes.heard("c", C, 0)


def test_topics_a_registration_does_not_name_may_be_removed() -> None:
    routes = Routes()
    routes.register(_said(topics=("T1", "T2", "T3")), 0)
    routes.register(_said(topics=("T1", "T2"), counter=2), 0, delete_missing=True)
    assert set(routes.topics) == {"T1", "T2"}
    routes.register(_said(topics=("T4",), counter=3), 0, delete_missing=True)
    assert set(routes.topics) == {"T1", "T2", "T4"}  # one topic: an increment


def test_acting_master() -> None:
    routes = Routes()
    routes.register(_said(A, acting_master=True), 0)
    routes.register(_said(B, broker_id=1, acting_master=True), 0)
    change = routes.unregister("c", A, "broker-a")
    assert change is not None
    assert (change.min_id, change.min_address, change.offline_address) == (1, B, A)
    assert change.targets == (B,)
    plain, acting = (routes.find_route("T1", acting_master=on) for on in (False, True))
    assert plain is not None
    assert acting is not None
    assert plain.broker_datas[0].broker_addrs == {1: B}
    assert acting.broker_datas[0].broker_addrs == {0: B}
    assert plain.queue_datas[0].perm == 4
    back = routes.register(_said(A, acting_master=True, counter=2), 0).change
    assert back is not None
    assert (back.min_id, back.targets, back.ha_address) == (0, (B,), f"{A}-ha")
    assert routes.topics["T1"]["broker-a"].perm == 6


def test_routes_of_another_cluster_stay_when_a_topic_is_deleted_in_one() -> None:
    routes = Routes()
    routes.register(_said(A, cluster="c1"), 0)
    routes.register(_said(B, cluster="c2", broker_name="b"), 0)
    routes.delete_topic("T1", "c1")
    assert set(routes.topics["T1"]) == {"b"}
    routes.delete_topic("T1", "nowhere")
    routes.delete_topic("T1")
    assert "T1" not in routes.topics


def test_added_routes_must_name_known_brokers() -> None:
    routes = Routes()
    routes.register(_said(), 0)
    known, unknown = QueueData(broker_name="broker-a", perm=6), QueueData(broker_name="x", perm=6)
    assert not routes.add_topic("N", [known, unknown])
    assert "N" not in routes.topics
    assert routes.add_topic("N", [known])
    assert routes.topics["N"]["broker-a"] == known


def test_filter_servers_and_queue_mappings_are_shown_with_the_route() -> None:
    routes = Routes()
    mapping = {"bname": "broker-a", "topic": "T1", "totalQueues": 4}
    routes.register(_said(filters=["f1", "f2"], mappings={"T1": mapping}), 0)
    route = routes.find_route("T1")
    assert route is not None
    assert route.filter_server_table == {A: ["f1", "f2"]}
    assert route.topic_queue_mapping_by_broker == {"broker-a": mapping}
    routes.register(_said(filters=[]), 0)
    again = routes.find_route("T1")
    assert again is not None
    assert again.filter_server_table == {}


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (_said(C, broker_name="c"), "2 brokers are registered, at most 2"),
        (_said(A, topics=("T1", "T2", "T3", "T4")), "4 topics, at most 3"),
        (_said(A, topics=("x" * 600,)), "a name of 600 characters, at most 512"),
        (_said(A, filters=["f"] * 257), "257 filter servers of one broker, at most 256"),
    ],
)
def test_at_a_bound_a_registration_is_refused_and_names_it(said: Registration, text: str) -> None:
    routes = Routes(Bounds(topics_max=3, brokers_max=2))
    routes.register(_said(A), 0)
    routes.register(_said(B, broker_name="b"), 0)
    with pytest.raises(SystemFailure, match=text):
        routes.register(said, 5)
    assert set(routes.topics) == {"T1", "T2"}
    assert {lease.heard_ms for lease in routes.leases.values()} == {0}
    with pytest.raises(SystemFailure, match="4 topics, at most 3"):
        routes.add_topic("T3", [QueueData(broker_name="b")])
        routes.add_topic("T4", [QueueData(broker_name="b")])
