"""Records, properties, ids, hashes and names against what RocketMQ's own classes printed."""

from __future__ import annotations

import base64
import json
from types import ModuleType
from typing import Any

import pytest

from contrailmq.protocol import hosts, ids, names
from contrailmq.protocol.batch import BatchMessage, decode_batch, encode_batch
from contrailmq.protocol.message import Record, body_crc, decode_record, encode_record
from contrailmq.protocol.properties import (
    RESERVED_PROPERTIES,
    decode_properties,
    decode_properties_text,
    encode_properties,
)
from testkit.builds import BUILDS, native_module
from testkit.golden import VERSIONS, vectors

FAQ = {
    "4.9.7": "http://rocketmq.apache.org/docs/faq/",
    "5.2.0": "https://rocketmq.apache.org/docs/bestPractice/06FAQ",
}


@pytest.fixture(params=BUILDS)
def records(request: pytest.FixtureRequest) -> ModuleType:
    return native_module("records", pure=request.param == "pure")


def of_kind(version: str, name: str, kind: str) -> list[dict[str, Any]]:
    found = [row for row in vectors(version, name) if row["kind"] == kind]
    assert found, f"no {kind} in {name}"
    return found


def comma_host(host: bytes) -> str:
    address, port = hosts.host_address(host)
    return f"{address},{port}"


def encode_again(record: Record) -> bytearray:
    return encode_record(
        topic=record.topic,
        body=record.body,
        properties=record.properties_bytes,
        born_ms=record.born_ms,
        born_host=record.born_host_bytes,
        store_host=record.store_host_bytes,
        queue_id=record.queue_id,
        queue_offset=record.queue_offset,
        commit_log_offset=record.commit_log_offset,
        store_ms=record.store_ms,
        flag=record.flag,
        sys_flag=record.sys_flag,
        reconsume_times=record.reconsume_times,
        prepared_transaction_offset=record.prepared_transaction_offset,
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_stored_messages(version: str) -> None:
    for row in of_kind(version, "message-codec", "stored"):
        encoded, wanted = base64.b64decode(row["encoded"]), row["decoded"]
        record = decode_record(encoded, check_crc=True)
        assert {
            "topic": record.topic,
            "queueId": record.queue_id,
            "queueOffset": record.queue_offset,
            "commitLogOffset": record.commit_log_offset,
            "flag": record.flag,
            "sysFlag": record.sys_flag,
            "bornTimestamp": record.born_ms,
            "bornHost": comma_host(record.born_host_bytes),
            "storeTimestamp": record.store_ms,
            "storeHost": comma_host(record.store_host_bytes),
            "reconsumeTimes": record.reconsume_times,
            "preparedTransactionOffset": record.prepared_transaction_offset,
            "bodyCRC": record.body_crc,
            "storeSize": record.store_size,
            "properties": record.properties or None,
            "msgId": record.offset_message_id,
        } == {name: value for name, value in wanted.items() if name != "body"}
        assert record.body == base64.b64decode(wanted["body"] or "")
        assert encode_again(record) == encoded


@pytest.mark.parametrize("version", VERSIONS)
def test_batches(version: str) -> None:
    for row in of_kind(version, "message-codec", "batch"):
        encoded = base64.b64decode(row["encoded"])
        wanted = [
            BatchMessage(
                base64.b64decode(message["body"]),
                message["propertiesString"].encode(),
                message["flag"],
            )
            for message in row["messages"]
        ]
        assert decode_batch(encoded) == wanted
        assert encode_batch(wanted) == encoded
        for message, expected in zip(wanted, row["messages"], strict=True):
            assert decode_properties(message.properties) == expected["properties"]


@pytest.mark.parametrize("version", VERSIONS)
def test_properties(version: str, records: ModuleType) -> None:
    for row in vectors(version, "properties"):
        text = row["string"]
        if row["kind"] == "encode":
            encoded = encode_properties(row["properties"], last_separator=version != "4.9.7")
            assert encoded == text.encode("utf-8", "replace"), row
        else:
            assert decode_properties_text(text) == row["properties"]
            assert decode_properties(text.encode()) == row["properties"]
            assert records.decode_properties(text.encode()) == row["properties"]


@pytest.mark.parametrize("version", VERSIONS)
def test_message_ids(version: str) -> None:
    for row in vectors(version, "message-id"):
        if row["kind"] == "offsetMsgId":
            offset = int(row["offset"])
            address, _, port = row["host"].rpartition(",")
            host = hosts.host_bytes(address, int(port))
            assert ids.offset_message_id(host, offset) == row["msgId"]
            assert ids.parse_offset_message_id(row["msgId"]) == (host, int(row["decodedOffset"]))
        elif row["kind"] == "uniqKey":
            key = ids.parse_unique_key(row["msgId"])
            assert key.pid == row["pid"]
            assert key.ip.hex() == row["ipBytes"]
        else:
            assert row["kind"] == "fileName"
            assert ids.segment_name(row["offset"]) == row["name"]


@pytest.mark.parametrize("version", VERSIONS)
def test_checksums(version: str) -> None:
    for row in vectors(version, "crc32"):
        assert body_crc(base64.b64decode(row["data"] or "")) == row["crc32"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("build", BUILDS)
def test_string_hashes(version: str, build: str) -> None:
    hashing = native_module("hashing", pure=build == "pure")
    for row in vectors(version, "string-hash"):
        text = row["text"]
        assert ids.java_hash(text) == row["hashCode"]
        assert ids.tags_code(text) == row["tagsCode"]
        assert ids.index_key_hash(text) == row["indexKeyHash"]
        assert hashing.java_hash_of(text) == row["hashCode"]
        if not any("\ud800" <= character <= "\udfff" for character in text):
            data = text.encode()
            assert hashing.as_int(hashing.java_hash(data, 0, len(data), 0)) == row["hashCode"]


@pytest.mark.parametrize("version", VERSIONS)
def test_topic_and_group_names(version: str) -> None:
    for row in vectors(version, "topic-validator"):
        name = row["topic"]
        assert len(name) == row["length"]
        for fault, said in (
            (names.topic_fault(name), row["checkTopic"]),
            (names.group_fault(name), row["checkGroup"]),
        ):
            advice = f"\nFor more information, please visit the url, {FAQ[version]}"
            assert (fault + advice if fault else "ok") == said
        assert names.is_system_topic(name) is row["system"]
        assert names.is_send_forbidden(name) is row["sendForbidden"]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_reserved_property_name_is_known(version: str) -> None:
    for row in vectors(version, "constants"):
        if row["class"] != "MessageConst" or not row["name"].startswith("PROPERTY_"):
            continue
        if not row["name"].startswith("PROPERTY_TRANSIENT"):
            assert row["value"] in RESERVED_PROPERTIES, json.dumps(row)
