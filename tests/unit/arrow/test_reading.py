"""Topics and store directories as Arrow batches, and tables into topics."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

from contrailmq.arrow import parallel, read_store, read_topic, write_table
from contrailmq.arrow.schema import message_schema
from contrailmq.errors import ConfigError
from contrailmq.testing.cluster import ClusterThread
from testkit.golden import StoreDirectory, store_directories

COUNT = 2000
CLEAN = [found for found in store_directories() if found.name.endswith("-clean")]


@pytest.fixture
def shop() -> Iterator[ClusterThread]:
    """Two brokers with a topic of known rows."""
    cluster = ClusterThread(brokers=2)
    try:
        cluster.create_topic("orders", queues=2)
        cluster.create_topic("empty", queues=2)
        rows = {
            "body": [b"%d" % number for number in range(COUNT)],
            "keys": [f"order-{number}" for number in range(COUNT)],
            "tags": ["paid" if number % 4 else "new" for number in range(COUNT)],
            "properties": [[("n", str(number % 3))] for number in range(COUNT)],
        }
        schema = pa.schema(
            [
                ("body", pa.binary()),
                ("keys", pa.string()),
                ("tags", pa.string()),
                ("properties", pa.map_(pa.string(), pa.string())),
            ]
        )
        table = pa.table(rows, schema=schema)
        assert write_table(table, "orders", name_servers=cluster.name_servers) == COUNT
        yield cluster
    finally:
        cluster.close()


def _numbers(reader: Any) -> list[int]:
    return sorted(int(body) for body in reader.read_all()["body"].to_pylist())


def test_a_topic_has_every_row_once_and_each_queue_in_order(shop: ClusterThread) -> None:
    reader = read_topic("orders", name_servers=shop.name_servers)
    assert reader.schema == message_schema()
    rows = reader.read_all().to_pylist()
    assert sorted(int(row["body"]) for row in rows) == list(range(COUNT))
    seen: dict[tuple[str, int], int] = {}
    for row in rows:
        queue = (row["broker"], row["queue_id"])
        assert row["queue_offset"] == seen.get(queue, 0)
        seen[queue] = row["queue_offset"] + 1
        number = int(row["body"])
        assert row["keys"] == f"order-{number}"
        assert row["tags"] == ("paid" if number % 4 else "new")
        assert ("n", str(number % 3)) in row["properties"]
        assert row["topic"] == "orders"
    assert len(seen) == 4
    nothing = read_topic("empty", name_servers=shop.name_servers).read_all()
    assert (nothing.num_rows, nothing.schema) == (0, message_schema())


def test_columns_tags_and_own_properties_are_chosen(shop: ClusterThread) -> None:
    columns = ["properties", "body"]
    reader = read_topic(
        "orders", name_servers=shop.name_servers, columns=columns, tags="new", properties="own"
    )
    assert reader.schema.names == columns
    table = reader.read_all()
    assert sorted(int(body) for body in table["body"].to_pylist()) == list(range(0, COUNT, 4))
    assert {name for pairs in table["properties"].to_pylist() for name, _ in pairs} == {"n"}


def test_a_directory_and_a_time_range_have_what_the_brokers_have(shop: ClusterThread) -> None:
    columns = ["queue_id", "queue_offset", "body", "store_time", "message_id"]
    keys = [(name, "ascending") for name in ("message_id", "queue_offset")]
    through = read_topic("orders", name_servers=shop.name_servers, columns=columns).read_all()
    beside = read_store(shop.stores, ["orders"], columns=columns, cores=1).read_all()
    assert beside.sort_by(keys) == through.sort_by(keys)
    where = {"name_servers": shop.name_servers, "columns": ["store_time", "body"]}
    times = read_topic("orders", **where).read_all()["store_time"].to_pylist()
    middle = sorted(times)[COUNT // 2]
    later = read_topic("orders", since=middle, **where).read_all().num_rows
    before = read_topic("orders", until=middle.isoformat(), **where).read_all().num_rows
    assert later == sum(moment >= middle for moment in times)
    assert before + later == COUNT
    past = int(middle.timestamp() * 1000) - 86_400_000
    assert read_store(shop.stores, topics="orders", until=past).read_all().num_rows == 0
    assert read_topic("orders", since="latest", **where).read_all().num_rows == 0
    broker = read_topic("orders", name_servers=shop.name_servers).read_all()["broker"][0].as_py()
    offsets = {"orders": {broker: {0: 3}}}
    assert read_topic("orders", starting_offsets=offsets, **where).read_all().num_rows == COUNT - 3


def test_what_is_written_can_be_text_views_and_lists(shop: ClusterThread) -> None:
    shop.create_topic("copies", queues=1)
    moment = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    table = pa.table(
        {
            "body": pa.array(["é", "b"], pa.large_string()),
            "keys": pa.array([["k1", "k2"], None], pa.large_list(pa.large_string())),
            "tags": pa.array(["x", "x"]).dictionary_encode(),
            "topic": pa.array(["copies", "copies"], pa.string_view()),
            "deliver_at": pa.array([moment, None], pa.timestamp("ns", "UTC")),
            "amount": [1, 2],
        }
    )
    assert write_table(table.to_reader(), name_servers=shop.name_servers) == 2
    rows = read_topic("copies", name_servers=shop.name_servers).read_all().to_pylist()
    found = sorted((row["body"].decode(), row["keys"], row["tags"]) for row in rows)
    assert found == [("b", None, "x"), ("é", "k1 k2", "x")]


def test_a_copy_of_a_topic_is_one_line(shop: ClusterThread) -> None:
    shop.create_topic("again", queues=1)
    reader = read_topic("orders", name_servers=shop.name_servers)
    columns = pa.Table.from_batches(reader).select(["body", "keys", "tags", "properties"])
    assert write_table(columns, "again", name_servers=shop.name_servers) == COUNT
    again = read_topic("again", name_servers=shop.name_servers, columns=["body"])
    assert _numbers(again) == list(range(COUNT))


@pytest.mark.parametrize("directory", CLEAN, ids=lambda found: found.name)
def test_java_directories_have_what_java_wrote(directory: StoreDirectory) -> None:
    lines = [json.loads(line) for line in directory.expected.read_text().splitlines()]
    wanted = {
        (line["topic"], line["queueId"], line["queueOffset"], line["commitLogOffset"])
        for line in lines
        if line["kind"] == "message"
    }
    columns = ["topic", "queue_id", "queue_offset", "commit_log_offset", "broker"]
    rows = read_store(directory.path, columns=columns).read_all().to_pylist()
    assert {tuple(row[name] for name in columns[:4]) for row in rows} == wanted
    assert len(rows) == len(wanted) > 100
    assert {row["broker"] for row in rows} == {directory.name}


def test_a_reader_that_is_dropped_ends_its_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contrailmq.bulk.directories.UNITS_AT_ONCE", 5)
    reader = read_store(CLEAN[0].path, cores=4)
    assert 0 < reader.read_next_batch().num_rows <= 5
    assert _threads()
    del reader
    assert not _threads()


def test_memory_holds_a_few_batches() -> None:
    made = []
    taken = 0
    parts = parallel.divide(_ranges(4), 4)

    def make(part: Any) -> Iterator[Any]:
        for _ in range(50):
            made.append(part)
            yield pa.record_batch({"n": [1]})

    for _ in parallel.batches(parts, make):
        taken += 1
        assert len(made) - taken <= parallel.HELD_PER_PART * len(parts) + len(parts)
    assert taken == len(made) == 200


def test_an_error_in_a_thread_reaches_the_caller() -> None:
    def make(part: Any) -> Iterator[Any]:
        yield pa.record_batch({"n": [1]})
        raise ConfigError("broken")

    with pytest.raises(ConfigError, match="broken"):
        list(parallel.batches(parallel.divide(_ranges(2), 2), make))
    assert not _threads()


def test_wrong_words_are_named() -> None:
    where = {"name_servers": "127.0.0.1:1"}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"columns": ["colour"]}, "no column 'colour'; there are topic, broker"),
        ({"columns": "body"}, "expected a list of names"),
        ({"columns": ["body", "body"]}, "body is named twice"),
        ({"colour": "red"}, "unknown option colour"),
        ({"push_down": True}, "push_down is an option of Spark's readers alone"),
        ({"since": "yesterday"}, "time 'yesterday': expected milliseconds or a time"),
        ({"tags": "a", "sql": "b > 1"}, "give one of the options tags and sql"),
        ({"since": 1.5}, "since is float, expected"),
    ]
    for options, text in wrong:
        with pytest.raises(ConfigError, match=text):
            read_topic("orders", **{**where, **options})
    with pytest.raises(ConfigError, match="topic nothing is not in"):
        read_store(CLEAN[0].path, topics="nothing")
    with pytest.raises(ConfigError, match="a column body is needed; there are keys"):
        write_table(pa.table({"keys": ["a"]}), "orders", **where)
    with pytest.raises(ConfigError, match="a table is int"):
        write_table(1, "orders", **where)
    with pytest.raises(ConfigError, match="column tags is int64, expected string"):
        write_table(pa.table({"body": ["a"], "tags": [1]}), "orders", **where)
    with pytest.raises(ConfigError, match="needs query_id"):
        write_table(pa.table({"body": ["a"]}), "orders", delivery="effectively-once", **where)


def test_columns_and_types_are_those_of_spark() -> None:
    pytest.importorskip("pyspark")
    from contrailmq.spark import columns
    from contrailmq.spark.versions import arrow_schema

    assert arrow_schema(columns.message_schema()) == message_schema()
    with_damage = arrow_schema(columns.message_schema(with_damage=True))
    assert with_damage == message_schema(with_damage=True)


_ALONE = """
import sys
from contrailmq.arrow import read_store
read_store(sys.argv[1]).read_all()
print(*(name for name in ("pyspark", "py4j", "asyncio") if name in sys.modules))
"""
_WITHOUT = """
import sys
sys.path_importer_cache.clear()
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "pyarrow":
            raise ModuleNotFoundError(name=name)
sys.meta_path.insert(0, Hidden())
from contrailmq.arrow import read_store
try:
    read_store(sys.argv[1])
except Exception as error:
    print(type(error).__name__, error)
"""


def test_spark_is_not_loaded() -> None:
    assert _run(_ALONE, CLEAN[0].path) == ""


def test_without_pyarrow_the_extra_is_named() -> None:
    told = _run(_WITHOUT, CLEAN[0].path)
    assert told.startswith("ConfigError contrailmq.arrow needs pyarrow"), told
    assert "pip install 'contrailmq[arrow]'" in told


def _run(script: str, path: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return done.stdout.strip()


def _threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("contrail-arrow")]


def _ranges(count: int) -> list[Any]:
    from contrailmq.bulk.planning import QueueRange
    from contrailmq.protocol.queue import MessageQueue

    return [QueueRange(MessageQueue("t", "b", number), 0, 10) for number in range(count)]
