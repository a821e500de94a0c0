"""Topics, groups and sessions: the pure tables of a broker, and the files of the original."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contrailmq.broker.config import permission
from contrailmq.broker.config.saving import Saving, load_tables
from contrailmq.broker.config.settings import BrokerSettings
from contrailmq.broker.identity import Identity
from contrailmq.broker.tables.consumers import ConsumerTable, Membership
from contrailmq.broker.tables.filter_file import decode_filters, encode_filters
from contrailmq.broker.tables.filters import ConsumerFilters
from contrailmq.broker.tables.groups import INSTALLED_GROUPS, GroupTable
from contrailmq.broker.tables.offsets import OffsetTable
from contrailmq.broker.tables.producers import ProducerTable
from contrailmq.broker.tables.revision import Revision
from contrailmq.broker.tables.topics import TopicTable, check_sendable
from contrailmq.errors import NoPermission, SystemBusy, SystemFailure
from contrailmq.protocol.bodies.heartbeat import SubscriptionData
from contrailmq.protocol.bodies.topic import TopicConfig
from contrailmq.store.files import OsFiles

STORES = Path(__file__).parents[2] / "golden" / "data" / "store"
IDENTITY = Identity(
    cluster_name="DefaultCluster",
    broker_name="broker-a",
    broker_id=0,
    address="127.0.0.1:10911",
    ha_address="127.0.0.1:10912",
    store_host=b"\x7f\x00\x00\x01\x00\x00\x2a\x9f",
)


class Peer:
    """A connection as far as the tables look at it."""

    closed = False


def topics(clock: Any, **settings: str) -> TopicTable:
    table = TopicTable(clock, Revision())
    table.install_system_topics(BrokerSettings(**settings), IDENTITY)
    return table


def test_system_topics_are_those_clients_and_tools_ask_for(clock: Any) -> None:
    table = topics(clock)
    shape = {
        name: (table.find(name).perm, table.find(name).write_queue_nums)  # type: ignore[union-attr]
        for name in table.names()
    }
    assert shape == {
        "SELF_TEST_TOPIC": (6, 1),
        "BenchmarkTest": (6, 1024),
        "DefaultCluster": (7, 16),
        "broker-a": (7, 1),
        "OFFSET_MOVED_EVENT": (6, 1),
        "SCHEDULE_TOPIC_XXXX": (6, 18),
        "DefaultCluster_REPLY_TOPIC": (6, 1),
        "RMQ_SYS_TRANS_HALF_TOPIC": (6, 1),
        "rmq_sys_REVIVE_LOG_DefaultCluster": (6, 8),
        "TBW102": (7, 8),
    }
    assert all(table.is_system(name) for name in shape)
    assert not table.is_system("mine")


def test_a_new_topic_takes_after_its_template(clock: Any) -> None:
    table = topics(clock)
    made = table.create_for_send("T", "TBW102", queue_nums=4)
    assert made is not None
    assert (made.read_queue_nums, made.write_queue_nums, made.perm) == (4, 4, 6)
    more = table.create_for_send("U", "TBW102", queue_nums=64)
    assert more is not None
    assert more.write_queue_nums == 8


@pytest.mark.parametrize("default_topic", ["nobody", "SELF_TEST_TOPIC"])
def test_only_inheritable_templates_make_topics(clock: Any, default_topic: str) -> None:
    assert topics(clock).create_for_send("T", default_topic, queue_nums=4) is None


def test_tbw102_makes_none_when_auto_creation_is_off(clock: Any) -> None:
    table = topics(clock)
    assert table.create_for_send("T", "TBW102", queue_nums=4, auto_create=False) is None
    assert table.create_for_send("T", "DefaultCluster", queue_nums=4, auto_create=False)


def test_every_change_has_a_version_and_is_reported(clock: Any) -> None:
    revision = Revision()
    table = TopicTable(clock, revision)
    seen: list[str] = []
    table.on_change = seen.append
    before, stamp = revision.value, table.version.value
    assert table.put(TopicConfig(topic_name="T"))
    assert revision.value > before
    assert table.version.value.counter == stamp.counter + 1
    assert not table.put(TopicConfig(topic_name="T"))
    assert seen == ["T"]
    assert table.delete("T")
    assert not table.delete("T")
    assert seen == ["T", "T"]


def test_the_bound_on_topics_is_named(clock: Any) -> None:
    table = TopicTable(clock, Revision(), topics_max=1)
    table.put(TopicConfig(topic_name="T"))
    with pytest.raises(SystemBusy, match="at most 1"):
        table.put(TopicConfig(topic_name="U"))
    assert table.put(TopicConfig(topic_name="T", perm=4))


def test_registered_permissions_are_cut_down_to_the_brokers(clock: Any) -> None:
    table = topics(clock)
    reading = table.registered(permission.READ).topic_config_table
    assert reading["TBW102"].perm == permission.READ
    assert table.registered(6).topic_config_table["TBW102"].perm == 7
    assert table.find("TBW102").perm == 7  # type: ignore[union-attr]


def test_order_configuration_follows_the_name_server(clock: Any) -> None:
    table = topics(clock)
    table.put(TopicConfig(topic_name="T"))
    table.put(TopicConfig(topic_name="U", order=True))
    table.apply_order_topics({})
    assert (table.is_order("T"), table.is_order("U")) == (False, True)
    table.apply_order_topics({"T": "broker-a:4"})
    assert (table.is_order("T"), table.is_order("U")) == (True, False)


def test_names_nobody_may_send_to() -> None:
    check_sendable("T")
    check_sendable("%RETRY%g")
    with pytest.raises(SystemFailure, match="illegal characters"):
        check_sendable("bad topic!")
    with pytest.raises(NoPermission, match="forbidden"):
        check_sendable("SCHEDULE_TOPIC_XXXX")


def test_groups_appear_when_asked_for_unless_that_is_off(clock: Any) -> None:
    table = GroupTable(clock, Revision())
    table.install_system_groups()
    assert list(table.names()) == list(INSTALLED_GROUPS)
    assert table.find_or_create("g", auto_create=False) is None
    assert table.find_or_create("CID_RMQ_SYS_X", auto_create=False) is not None
    assert table.find_or_create("bad group", auto_create=True) is None
    made = table.find_or_create("g", auto_create=True)
    assert made is not None
    assert (made.retry_queue_nums, made.retry_max_times) == (1, 16)


def subscription(topic: str, version: int, text: str = "*") -> SubscriptionData:
    return SubscriptionData(topic=topic, sub_version=version, sub_string=text)


def member(*subscriptions: SubscriptionData, group: str = "g") -> Membership:
    return Membership(group=group, message_model="CLUSTERING", subscriptions=list(subscriptions))


def test_a_group_changes_with_its_members_and_topics(clock: Any) -> None:
    table = ConsumerTable(clock, Revision())
    one, two = Peer(), Peer()
    assert table.register(one, "c1", member(subscription("T", 1)))
    assert not table.register(one, "c1", member(subscription("T", 1)))
    assert table.register(two, "c2", member(subscription("T", 1)))
    assert table.register(two, "c2", member(subscription("T", 1), subscription("U", 1)))
    assert table.register(two, "c2", member(subscription("U", 1)))
    group = table.find("g")
    assert group is not None
    assert sorted(group.client_ids()) == ["c1", "c2"]
    assert list(group.subscriptions) == ["U"]
    assert table.drop(one) == ["g"]
    assert table.drop(two) == []
    assert table.find("g") is None


def test_the_newer_subscription_wins(clock: Any) -> None:
    table = ConsumerTable(clock, Revision())
    peer = Peer()
    table.register(peer, "c1", member(subscription("T", 5, "A")))
    table.register(peer, "c1", member(subscription("T", 4, "B")))
    assert table.find("g").subscriptions["T"].sub_string == "A"  # type: ignore[union-attr]
    assert not table.register(peer, "c1", member(subscription("T", 6, "C")))
    assert table.find("g").subscriptions["T"].sub_string == "C"  # type: ignore[union-attr]


def test_a_client_id_on_a_new_connection_replaces_the_old(clock: Any) -> None:
    table = ConsumerTable(clock, Revision())
    old, new = Peer(), Peer()
    table.register(old, "c1", member(subscription("T", 1)))
    assert table.register(new, "c1", member(subscription("T", 1)))
    assert table.find("g").client_ids() == ["c1"]  # type: ignore[union-attr]
    assert table.drop(old) == []
    assert table.has_member("g", new)


def test_silence_is_noticed(clock: Any) -> None:
    consumers, producers = ConsumerTable(clock, Revision()), ProducerTable(clock)
    peer = Peer()
    consumers.register(peer, "c1", member(subscription("T", 1)))
    producers.register(peer, "c1", "p")
    clock.ms += 120_000
    assert consumers.expired(silent_ms=120_000) == []
    clock.ms += 1
    assert consumers.expired(silent_ms=120_000) == [peer]
    assert producers.expired(silent_ms=120_000) == [peer]
    consumers.register(peer, "c1", member(subscription("T", 1)))
    assert consumers.expired(silent_ms=120_000) == []


def test_producers_are_found_by_client_id_until_their_last_group_is_left(clock: Any) -> None:
    table = ProducerTable(clock)
    peer = Peer()
    table.register(peer, "c1", "p")
    table.register(peer, "c1", "q")
    table.unregister(peer, "p")
    assert table.find_client("c1") is peer
    table.unregister(peer, "q")
    assert table.find_client("c1") is None
    assert len(table) == 0


@pytest.mark.parametrize("name", sorted(path.name for path in STORES.glob("v*") if path.is_dir()))
def test_the_files_of_the_original_are_read(clock: Any, name: str) -> None:
    saving = Saving(OsFiles(), str(STORES / name / "config"))
    table, groups = TopicTable(clock, Revision()), GroupTable(clock, Revision())
    offsets, filters = OffsetTable(), ConsumerFilters(clock)
    load_tables(saving, table, groups, offsets=offsets, filters=filters)
    assert table.find("SELF_TEST_TOPIC") is not None
    if name.endswith("features"):
        assert groups.find("GoldMadeGroup").retry_queue_nums == 2  # type: ignore[union-attr]
        assert offsets.topics_of("GoldSqlGroup0") != []
        assert len(filters) == 3
        assert filters.find("GoldSqlGroup0", "GoldSql").is_dead  # type: ignore[union-attr]
        again = decode_filters(encode_filters(filters), filters)
        assert {entry.expression for entry in again} == {e.expression for e in filters.entries()}
