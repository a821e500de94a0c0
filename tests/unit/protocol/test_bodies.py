"""Typed bodies: tolerance, bounds, both lines' forms."""

from __future__ import annotations

import zlib

import pytest

from contrailmq.errors import RemoteProtocolError
from contrailmq.protocol.bodies.clients import ConsumerRunningInfo
from contrailmq.protocol.bodies.group import SubscriptionGroupConfig
from contrailmq.protocol.bodies.heartbeat import HeartbeatData, SubscriptionData
from contrailmq.protocol.bodies.queues import (
    BatchAck,
    BatchAckMessageRequest,
    LockBatchRequest,
    ResetOffsetBody,
)
from contrailmq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from contrailmq.protocol.bodies.stats import BrokerStatsData, ConsumeStats, ConsumeStatsList
from contrailmq.protocol.bodies.topic import RegisterBrokerBody, TopicConfig
from contrailmq.protocol.bodies.version import DataVersion
from contrailmq.protocol.queue import MessageQueue

QUEUE = MessageQueue("t", "b", 1)


def test_numbers_as_text_and_the_reverse() -> None:
    found = SubscriptionData.decode(
        b'{"topic":5,"subVersion":"17","classFilterMode":"true","codeSet":["1",2.0],'
        b'"tagsSet":[7,true,1.5,{"a":1}],"unknown":{}}'
    )
    assert found == SubscriptionData(
        topic="5",
        sub_version=17,
        class_filter_mode=True,
        code_set=[1, 2],
        tags_set=["7", "true", "1.5", '{"a":1}'],
    )


def test_nulls_and_missing_keys_leave_the_default() -> None:
    body = b'{"topicName":null,"perm":null,"order":"","readQueueNums":"null","attributes":null}'
    assert TopicConfig.decode(body) == TopicConfig()
    assert SubscriptionGroupConfig.decode(b"{}").retry_max_times == 16
    assert HeartbeatData.decode(b"null") == HeartbeatData()
    assert HeartbeatData.decode(b'{"producerDataSet":[null,{"groupName":"p"}]}').encode(
        legacy=True
    ) == (b'{"clientID":"","consumerDataSet":[],"producerDataSet":[{"groupName":"p"}]}')


@pytest.mark.parametrize(
    "body",
    [
        *(b"[]", b"5", b'"x"', b'{"perm":"x"}', b'{"perm":2147483648}', b'{"perm":1.5}'),
        *(b'{"perm":[]}', b'{"order":"maybe"}', b'{"order":{}}', b'{"attributes":5}'),
        *(b'{"perm":99999999999999999999999999}', b'{"perm":' + b"1" * 30 + b"}", b'{"perm":'),
        b'{"attributes":[1]}',
    ],
)
def test_what_is_refused(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        TopicConfig.decode(body)


def test_a_bad_field_is_named() -> None:
    with pytest.raises(RemoteProtocolError, match="TopicConfig: bad perm"):
        TopicConfig.decode(b'{"perm":"x"}')


def test_mutable_defaults_are_not_shared() -> None:
    first, second = TopicConfig(), TopicConfig()
    first.attributes["a"] = "b"
    assert second.attributes == {}
    wrapped = RegisterBrokerBody()
    wrapped.topics["t"] = TopicConfig()
    assert RegisterBrokerBody().topics == {}


def test_fields_4_9_does_not_know_are_left_out_for_it() -> None:
    config = TopicConfig(topic_name="t", attributes={"message.type": "FIFO"})
    assert b"attributes" in config.encode()
    assert b"attributes" not in config.encode(legacy=True)
    assert DataVersion(counter=1, timestamp=2).encode(legacy=True) == b'{"counter":1,"timestamp":2}'


def test_a_route_is_standard_json_unless_asked_otherwise() -> None:
    route = TopicRouteData(
        broker_datas=[BrokerData(broker_addrs={0: "é:1"}, broker_name="b", cluster="c")],
        queue_datas=[QueueData(broker_name="b", perm=6)],
    )
    assert b'"brokerAddrs":{"0":"\\u00E9:1"}' in route.encode()
    assert '"brokerAddrs":{0:"é:1"}'.encode() in route.encode(standard=False)
    assert b'"enableActingMaster":false' in route.encode()
    assert TopicRouteData.decode(route.encode()) == route
    assert TopicRouteData.decode(route.encode(standard=False)) == route


def test_old_names_of_fields() -> None:
    assert QueueData.decode(b'{"topicSynFlag":3}').topic_sys_flag == 3
    route = TopicRouteData.decode(b'{"queueDatas":[{"brokerName":"b","topicSynFlag":3}]}')
    assert route.queue_datas[0].topic_sys_flag == 3
    assert HeartbeatData.decode(b'{"clientId":"c"}').client_id == "c"


def test_queues_as_keys_of_every_form() -> None:
    table = ConsumeStats.decode(
        b'{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"t"}:{"brokerOffset":5}}}'
    )
    assert table.offset_table[QUEUE].broker_offset == 5
    assert table.total_diff() == 5
    as_text = (
        b'{"offsetTable":{"{\\"brokerName\\":\\"b\\",\\"queueId\\":1,\\"topic\\":\\"t\\"}":7}}'
    )
    assert ResetOffsetBody.decode(as_text).offset_table == {QUEUE: 7}
    partial = b'{"offsetTable":{{"topic":"t","queueId":"1"}:7}}'
    assert ResetOffsetBody.decode(partial).offset_table == {MessageQueue("t", "", 1): 7}
    assert LockBatchRequest.decode(
        b'{"mqSet":[{"brokerName":"b","queueId":1,"topic":"t"}]}'
    ).mq_set == [QUEUE]
    for bad in (b'{"offsetTable":{5:7}}', b'{"offsetTable":{{"queueId":"x"}:7}}'):
        with pytest.raises(RemoteProtocolError):
            ResetOffsetBody.decode(bad)


def test_a_table_of_offsets_as_a_list() -> None:
    body = ResetOffsetBody(offset_table={QUEUE: 7})
    assert body.encode_for_c() == (
        b'{"offsetTable":[{"brokerName":"b","offset":7,"queueId":1,"topic":"t"}]}'
    )
    assert ResetOffsetBody.decode(body.encode_for_c()) == body
    assert ResetOffsetBody.decode(body.encode()) == body


def test_references_are_resolved_and_converted_once() -> None:
    found = BrokerStatsData.decode(
        b'{"statsDay":{"avgpt":1.0,"sum":10,"tps":0.5},"statsHour":{"$ref":"$.statsDay"}}'
    )
    assert found.stats_hour is found.stats_day
    assert found.stats_day.sum == 10
    size = 2000
    rows = ",".join(
        f'{{"brokerName":"b","queueId":{i},"topic":"t"}}:{{"brokerOffset":{i}}}'
        for i in range(size)
    )
    group = '{"g":[{"offsetTable":{' + rows + "}}]}"
    again = ',{"$ref":"$.consumeStatsList[0]"}' * size
    body = ConsumeStatsList.decode('{"consumeStatsList":[' + group + again + "]}")
    assert len(body.consume_stats_list) == size + 1
    assert body.consume_stats_list[0] is body.consume_stats_list[-1]


def test_bytes_are_base64() -> None:
    ack = BatchAck(
        consumer_group="g", topic="t", start_offset=10, bits=BatchAck.bits_of([10, 13, 21], 10)
    )
    assert ack.offsets() == [10, 13, 21]
    body = BatchAckMessageRequest(broker_name="b", acks=[ack])
    assert b'"b":"CQg="' in body.encode()
    assert BatchAckMessageRequest.decode(body.encode()) == body
    long_names = (
        b'{"acks":[{"consumerGroup":"g","topic":"t","startOffset":10,"bitSet":"CQg=","retry":1}]}'
    )
    (found,) = BatchAckMessageRequest.decode(long_names).acks
    assert (found.topic, found.retry, found.offsets()) == ("t", "1", [10, 13, 21])
    for bad in (b'{"acks":[{"b":"*"}]}', b'{"acks":[{"bitSet":5}]}'):
        with pytest.raises(RemoteProtocolError):
            BatchAckMessageRequest.decode(bad)


def test_a_version_grows() -> None:
    version = DataVersion().next(17).next(18, state_version=3)
    assert version == DataVersion(counter=2, state_version=3, timestamp=18)


def test_anything_in_a_field_for_anything() -> None:
    body = ConsumerRunningInfo.decode(b'{"userConsumerInfo":{"x":[1,{"y":null}]}}')
    assert body.user_consumer_info == {"x": [1, {"y": None}]}


def test_topic_lines() -> None:
    config = TopicConfig(
        topic_name="t", read_queue_nums=4, write_queue_nums=2, attributes={"a": "b"}
    )
    assert config.encode_line() == 't 4 2 6 SINGLE_TAG {"a":"b"}'
    assert config.encode_line(legacy=True) == "t 4 2 6 SINGLE_TAG"
    assert TopicConfig.decode_line(config.encode_line()) == config
    for bad in ("", "t", "t 4 2 6", "t x 2 6 SINGLE_TAG", "t 4 2 6 SINGLE_TAG {"):
        with pytest.raises(RemoteProtocolError):
            TopicConfig.decode_line(bad)


def test_compressed_registrations_that_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    body = RegisterBrokerBody()
    body.topics["t"] = TopicConfig(topic_name="t")
    whole = body.encode_compressed()
    assert RegisterBrokerBody.decode_compressed(whole) == body
    inflated = zlib.decompress(whole)
    for end in range(len(whole)):
        with pytest.raises(RemoteProtocolError):
            RegisterBrokerBody.decode_compressed(whole[:end])
    accepted = 0
    for end in range(len(inflated)):
        try:
            RegisterBrokerBody.decode_compressed(zlib.compress(inflated[:end]))
            accepted += 1
        except RemoteProtocolError:
            continue
    assert accepted == 1  # without the last section it is a 4.9 broker's
    for broken in (b"\xff\xff\xff\xff", b"\0\0\0\2{}\xff\xff\xff\xff"):
        with pytest.raises(RemoteProtocolError):
            RegisterBrokerBody.decode_compressed(zlib.compress(broken))
    monkeypatch.setattr("contrailmq.protocol.bodies.topic.INFLATED_SIZE_MAX", 20)
    with pytest.raises(RemoteProtocolError, match="more than 20"):
        RegisterBrokerBody.decode_compressed(whole)
