"""Typed headers: names, defaults, bounds, and what other clients leave out."""

from __future__ import annotations

import pytest

from contrailmq.errors import RemoteProtocolError
from contrailmq.protocol.headers.client import UnregisterClientRequest
from contrailmq.protocol.headers.group import DeleteSubscriptionGroupRequest
from contrailmq.protocol.headers.offset import (
    QueryConsumerOffsetRequest,
    SearchOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from contrailmq.protocol.headers.query import QueryMessageRequest
from contrailmq.protocol.headers.route import RegisterBrokerRequest
from contrailmq.protocol.headers.send import SendMessageRequest, SendMessageRequestV2


def test_wire_names_are_camel_case_or_given() -> None:
    header = RegisterBrokerRequest(
        broker_name="b", broker_addr="1.2.3.4:1", cluster_name="c", broker_id=0, body_crc32=7
    )
    assert header.to_fields() == {
        "brokerName": "b",
        "brokerAddr": "1.2.3.4:1",
        "clusterName": "c",
        "haServerAddr": "",
        "brokerId": "0",
        "compressed": "false",
        "bodyCrc32": "7",
    }
    assert UnregisterClientRequest(client_id="c").to_fields() == {"clientID": "c"}


def test_unknown_fields_are_ignored_and_none_is_absent() -> None:
    fields = {"consumerGroup": "g", "topic": "t", "queueId": "1", "ReqT": "0", "bname": "b"}
    header = QueryConsumerOffsetRequest.from_fields(fields)
    assert header.set_zero_if_not_found is None
    assert header.broker_name == "b"
    assert "setZeroIfNotFound" not in header.to_fields()


@pytest.mark.parametrize(
    ("value", "expected"),
    [("true", True), ("TRUE", True), ("1", True), ("false", False), ("0", False), ("", False)],
)
def test_booleans_as_java_and_cpp_write_them(value: str, expected: bool) -> None:
    fields = {"consumerGroup": "g", "topic": "t", "queueId": "1", "setZeroIfNotFound": value}
    assert QueryConsumerOffsetRequest.from_fields(fields).set_zero_if_not_found is expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("queueId", "x"),
        ("queueId", ""),
        ("queueId", "2147483648"),
        ("queueId", "-2147483649"),
        ("commitOffset", "9223372036854775808"),
        ("commitOffset", "1" * 5000),
        ("commitOffset", "1.5"),
    ],
)
def test_numbers_that_no_java_field_holds_are_refused(name: str, value: str) -> None:
    fields = {"consumerGroup": "g", "topic": "t", "queueId": "1", "commitOffset": "5", name: value}
    with pytest.raises(RemoteProtocolError, match=f"bad {name}="):
        UpdateConsumerOffsetRequest.from_fields(fields)


def test_numbers_at_the_bounds_are_taken() -> None:
    fields = {
        "consumerGroup": "g",
        "topic": "t",
        "queueId": "-2147483648",
        "commitOffset": "9223372036854775807",
    }
    header = UpdateConsumerOffsetRequest.from_fields(fields)
    assert (header.queue_id, header.commit_offset) == (-(1 << 31), (1 << 63) - 1)


def test_a_missing_field_is_named() -> None:
    with pytest.raises(RemoteProtocolError, match="QueryConsumerOffsetRequest: topic is missing"):
        QueryConsumerOffsetRequest.from_fields({"consumerGroup": "g", "queueId": "0"})


def test_a_short_send_header_without_its_last_letters() -> None:
    # What ali-ons sends: a to k, nothing else.
    values = ("g", "t", "TBW102", "4", "0", "0", "17", "0", "p", "0", "false")
    letters = dict(zip("abcdefghijk", values, strict=True))
    header = SendMessageRequestV2.from_fields(letters).v1()
    assert header.batch is None
    assert header.max_reconsume_times is None
    assert header.unit_mode is False
    assert SendMessageRequestV2.of(header).to_fields() == letters


def test_a_batch_flag_of_the_cpp_client() -> None:
    fields = {"producerGroup": "g", "topic": "t", "queueId": "0", "batch": "1", "unitMode": "0"}
    header = SendMessageRequest.from_fields(fields)
    assert header.batch is True
    assert header.unit_mode is False


def test_names_that_differ_between_the_lines() -> None:
    old = DeleteSubscriptionGroupRequest.from_fields({"groupName": "g", "removeOffset": "true"})
    new = DeleteSubscriptionGroupRequest.from_fields({"groupName": "g", "cleanOffset": "true"})
    neither = DeleteSubscriptionGroupRequest.from_fields({"groupName": "g"})
    assert old.drops_offsets and new.drops_offsets and not neither.drops_offsets


def test_a_boundary_is_lower_unless_it_is_upper() -> None:
    fields = {"topic": "t", "queueId": "0", "timestamp": "5"}
    assert not SearchOffsetRequest.from_fields(fields).is_upper
    assert SearchOffsetRequest.from_fields(fields | {"boundaryType": "upper"}).is_upper
    assert not SearchOffsetRequest.from_fields(fields | {"boundaryType": "??"}).is_upper


def test_a_field_with_an_odd_name() -> None:
    fields = {
        "topic": "t",
        "key": "k",
        "maxNum": "32",
        "beginTimestamp": "0",
        "endTimestamp": "9",
        "_UNIQUE_KEY_QUERY": "true",
    }
    header = QueryMessageRequest.from_fields(fields)
    assert header.unique_key_query is True
    assert header.to_fields() == fields
