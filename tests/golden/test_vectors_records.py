"""Every record of the golden store directories, against what a Java broker read from it."""

from __future__ import annotations

import base64
import hashlib
from types import ModuleType
from typing import Any

import pytest

from contrailmq._native import record as record_map
from contrailmq.protocol.message import Record, decode_record, record_size
from testkit.builds import BUILDS, native_module
from testkit.golden import StoreDirectory, store_directories
from testkit.record_walk import record_positions


@pytest.fixture(params=BUILDS)
def records(request: pytest.FixtureRequest) -> ModuleType:
    return native_module("records", pure=request.param == "pure")


def log_records(store: StoreDirectory) -> dict[int, Record]:
    found: dict[int, Record] = {}
    for path in sorted((store.path / "commitlog").iterdir()):
        data, base = path.read_bytes(), int(path.name)
        for position in record_positions(data):
            record = decode_record(data, position, check_crc=True)
            assert record.commit_log_offset == base + position
            found[base + position] = record
    return found


def facts(record: Record) -> dict[str, Any]:
    body = record.payload()
    return {
        "topic": record.topic,
        "queueId": record.queue_id,
        "queueOffset": record.queue_offset,
        "storeSize": record.store_size,
        "bornTimestamp": record.born_ms,
        "storeTimestamp": record.store_ms,
        "bornHost": ",".join(record.born_host.rsplit(":", 1)),
        "storeHost": ",".join(record.store_host.rsplit(":", 1)),
        "msgId": record.offset_message_id,
        "uniqKey": record.unique_key,
        "sysFlag": record.sys_flag,
        "flag": record.flag,
        "bodyCRC": record.body_crc,
        "reconsumeTimes": record.reconsume_times,
        "preparedTransactionOffset": record.prepared_transaction_offset,
        "properties": record.properties,
        "storedBodyLength": len(record.body),
        "bodyLength": len(body),
        "bodySha256": hashlib.sha256(body).hexdigest(),
    }


@pytest.mark.parametrize("store", store_directories(), ids=lambda store: store.name)
def test_records_decode_as_java_decoded_them(store: StoreDirectory) -> None:
    found = log_records(store)
    compared = 0
    for row in store.rows("message"):
        record = found[row["commitLogOffset"]]
        known = facts(record)
        wanted = {name: row[name] for name in known if name in row}
        assert {name: known[name] for name in wanted} == wanted
        if row.get("body") is not None:
            assert record.payload() == base64.b64decode(row["body"])
        raw = record.properties_bytes
        sizes = {"body": len(record.body), "topic": len(record.topic.encode())}
        assert record.store_size == record_size(
            **sizes, properties=len(raw), sys_flag=record.sys_flag
        )
        assert 0 <= record.body_crc <= record_map.CRC_MASK
        compared += 1
    assert compared
