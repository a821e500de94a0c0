"""Maps with queues as keys: the quick road agrees with the tolerant one."""

from __future__ import annotations

import msgspec
import pytest

from contrailmq.protocol.bodies.body import Body
from contrailmq.protocol.bodies.clients import ConsumerRunningInfo, ProcessQueueInfo
from contrailmq.protocol.bodies.queue_keys import decode_with_queue_keys, has_queue_keys
from contrailmq.protocol.bodies.queues import GetConsumerStatusBody
from contrailmq.protocol.bodies.stats import (
    ConsumeStats,
    ConsumeStatsList,
    OffsetWrapper,
    TopicOffset,
    TopicStatsTable,
)
from contrailmq.protocol.bodies.topic import TopicConfigWrapper
from contrailmq.protocol.fastjson import loads
from contrailmq.protocol.queue import MessageQueue

QUEUES = [MessageQueue("%RETRY%g", "broker-ä", 0), MessageQueue("a b{c},:", "", -1)]
STATS = ConsumeStats(
    offset_table={queue: OffsetWrapper(broker_offset=9, consumer_offset=4) for queue in QUEUES}
)
BODIES: list[Body] = [
    TopicStatsTable(offset_table={queue: TopicOffset(max_offset=3) for queue in QUEUES}),
    TopicStatsTable(),
    STATS,
    ConsumeStatsList(consume_stats_list=[{"g": [STATS, STATS]}, {"h": []}], total_diff=10),
    ConsumerRunningInfo(mq_table={QUEUES[0]: ProcessQueueInfo(cached_msg_count=2)}),
    GetConsumerStatusBody(consumer_table={"client": {QUEUES[0]: 7}}),
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: type(body).__name__)
def test_both_roads_agree(body: Body) -> None:
    raw = body.encode()
    assert decode_with_queue_keys(type(body), raw) == body
    assert type(body).of(loads(raw)) == body
    assert type(body).decode(raw) == body


def test_a_queue_of_many_groups_is_one_object() -> None:
    groups = ConsumeStatsList.decode(BODIES[3].encode()).consume_stats_list[0]["g"]
    first, second = (next(iter(stats.offset_table)) for stats in groups)
    assert first is second


def test_what_the_quick_road_does_not_take_is_read_all_the_same() -> None:
    raw = b'{"offsetTable":{{"topic":"t","queueId":1,"brokerName":"b"}:{"maxOffset":"5"}}}'
    with pytest.raises(msgspec.MsgspecError):
        decode_with_queue_keys(TopicStatsTable, raw)
    found = TopicStatsTable.decode(raw).offset_table
    assert found == {MessageQueue("t", "b", 1): TopicOffset(max_offset=5)}


def test_only_such_bodies_have_it() -> None:
    assert has_queue_keys(ConsumeStatsList)
    assert not has_queue_keys(TopicConfigWrapper)
