"""Archive, restore, SQL: on a real local Spark, with real brokers."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from contrailmq.errors import ConfigError
from contrailmq.pipelines import archive, query, restore
from contrailmq.pipelines.compact import compact, finish
from contrailmq.pipelines.folders import Folders
from contrailmq.pipelines.places import Archive, Cluster, Stores, read_archive, read_messages
from contrailmq.pipelines.progress import Stop
from contrailmq.testing.cluster import ClusterThread
from testkit.spark_kit import send

pytestmark = pytest.mark.spark


def _place(cluster: ClusterThread) -> Cluster:
    return Cluster(name_servers=cluster.name_servers)


def _numbers(frame: Any) -> list[int]:
    return sorted(json.loads(bytes(row.body))["n"] for row in frame.select("body").collect())


def _live(spark: Any, cluster: ClusterThread, topic: str) -> Any:
    return read_messages(spark, _place(cluster), topics=[topic])


def test_an_archive_grows_and_its_files_are_few(
    spark: Any, cluster: ClusterThread, tmp_path: Path
) -> None:
    cluster.create_topic("orders", queues=2)
    send(cluster.name_servers, "orders", range(600))
    path = str(tmp_path / "archive")
    first = archive.run(spark, _place(cluster), path, topics=["orders"], batch_rows=250)
    assert first.rows == 600
    assert first.size > 600 * 20
    assert first.facts["batches"] >= 3
    assert _numbers(read_archive(spark, path)) == list(range(600))
    # Any reader of Parquet sees the same rows, in one file an hour now that small ones are merged.
    hours = {file.parent.parent for file in Path(path).glob("date=*/hour=*/topic=*/*/*.parquet")}
    files = list(Path(path).glob("date=*/hour=*/topic=*/*/*.parquet"))
    assert len(files) == len(hours)
    assert sum(pq.read_metadata(file).num_rows for file in files) == 600

    assert archive.run(spark, _place(cluster), path, topics=["orders"]).rows == 0
    send(cluster.name_servers, "orders", range(600, 700))
    assert archive.run(spark, _place(cluster), path, topics=["orders"]).rows == 100
    found = read_archive(spark, path)
    assert _numbers(found) == list(range(700))
    live = _live(spark, cluster, "orders")
    same = [name for name in live.columns if name != "properties"]
    assert sorted(map(str, found.select(*same).collect())) == sorted(
        map(str, live.select(*same).collect())
    )


def test_a_batch_that_is_written_again_replaces_itself(
    spark: Any, cluster: ClusterThread, tmp_path: Path
) -> None:
    cluster.create_topic("orders", queues=1)
    send(cluster.name_servers, "orders", range(50))
    path = str(tmp_path / "archive")
    archive.run(spark, _place(cluster), path, topics=["orders"], name="it")
    send(cluster.name_servers, "orders", range(50, 90))
    # As after a crash between writing a batch and noting it: the commit is not there.
    archive.run(spark, _place(cluster), path, topics=["orders"], name="it", file_size=1)
    commits = tmp_path / "archive" / "_checkpoint" / "it" / "commits"
    last = max(int(entry.name) for entry in commits.iterdir() if entry.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
    assert compact(spark, path).rows == 0, "a batch that may be written again is not merged"
    archive.run(spark, _place(cluster), path, topics=["orders"], name="it")
    assert _numbers(read_archive(spark, path)) == list(range(90))


def test_a_stopped_archive_goes_on(spark: Any, cluster: ClusterThread, tmp_path: Path) -> None:
    cluster.create_topic("orders", queues=1)
    send(cluster.name_servers, "orders", range(400))
    path = str(tmp_path / "archive")
    stop = Stop()
    stop.request()
    report = archive.run(spark, _place(cluster), path, topics=["orders"], batch_rows=50, stop=stop)
    assert report.is_stopped
    assert "goes on" in report.summary()
    archive.run(spark, _place(cluster), path, topics=["orders"], batch_rows=50)
    assert _numbers(read_archive(spark, path)) == list(range(400))


def test_merging_survives_a_crash_at_each_step(
    spark: Any, cluster: ClusterThread, tmp_path: Path
) -> None:
    cluster.create_topic("orders", queues=1)
    send(cluster.name_servers, "orders", range(100))
    path = str(tmp_path / "archive")
    archive.run(
        spark, _place(cluster), path, topics=["orders"], batch_rows=25, name="it", file_size=1
    )
    files = Folders(spark, path)
    folder = next((tmp_path / "archive").glob("date=*/hour=*/topic=*"))
    place = str(folder.relative_to(tmp_path / "archive"))
    sources = sorted(f"{place}/{entry.name}" for entry in folder.iterdir() if entry.is_dir())
    assert len(sources) >= 4
    # Merged files without a note: thrown away.
    read_archive(spark, path).drop("topic", "date", "hour").write.parquet(f"{path}/_compacting/x")
    finish(files)
    assert _numbers(read_archive(spark, path)) == list(range(100))
    # With a note the merge counts, with some of its sources deleted or all of them.
    read_archive(spark, path).drop("topic", "date", "hour").write.parquet(f"{path}/_compacting/y")
    note = {"sources": sources, "target": f"{place}/batch=merged-y"}
    files.write_text("_compacting/y.json", json.dumps(note))
    files.delete(sources[0])
    finish(files)
    assert _numbers(read_archive(spark, path)) == list(range(100))
    assert [entry.name for entry in folder.iterdir() if entry.is_dir()] == ["batch=merged-y"]
    assert not files.has("_compacting")


def test_restore_sends_each_message_once(
    spark: Any, cluster: ClusterThread, tmp_path: Path
) -> None:
    cluster.create_topic("orders", queues=2)
    cluster.create_topic("again", queues=3)
    send(cluster.name_servers, "orders", range(300))
    path = str(tmp_path / "archive")
    archive.run(spark, _place(cluster), path, topics=["orders"])
    report = restore.run(spark, path, _place(cluster), to="again", topics=["orders"])
    assert (report.rows, report.is_stopped) == (300, False)
    assert _numbers(_live(spark, cluster, "again")) == list(range(300))
    row = _live(spark, cluster, "again").where("keys = 'k7'").collect()[0]
    assert (row.tags, row.properties["colour"]) == ("t1", "blue")
    # A second run does nothing; one that died before it noted an hour sends nothing twice,
    # though the archive has grown.
    assert restore.run(spark, path, _place(cluster), to="again", topics=["orders"]).rows == 0
    note = next((tmp_path / "archive" / "_restores").glob("*.json"))
    note.write_text(json.dumps({**json.loads(note.read_text()), "done": 0}))
    (note.parent / f".{note.name}.crc").unlink(missing_ok=True)
    send(cluster.name_servers, "orders", range(300, 350))
    archive.run(spark, _place(cluster), path, topics=["orders"])
    restore.run(spark, path, _place(cluster), to="again", topics=["orders"])
    assert _numbers(_live(spark, cluster, "again")) == list(range(300))
    done = restore.run(spark, path, _place(cluster), to="again", topics=["orders"], again=True)
    assert done.rows == 350
    assert _live(spark, cluster, "again").count() == 650
    # Another archive, though of the same messages and hours, is another restore.
    other = str(tmp_path / "other")
    archive.run(spark, _place(cluster), other, topics=["orders"])
    assert restore.run(spark, other, _place(cluster), to="again", topics=["orders"]).rows == 350
    assert _live(spark, cluster, "again").count() == 1000


def test_sql_over_topics_stores_and_archives(
    spark: Any, cluster: ClusterThread, tmp_path: Path
) -> None:
    cluster.create_topic("orders", queues=2)
    cluster.create_topic("order-events", queues=1)
    send(cluster.name_servers, "orders", range(60))
    send(cluster.name_servers, "order-events", range(10))
    path = str(tmp_path / "archive")
    archive.run(spark, _place(cluster), path, topics=["orders"])
    stores = Stores(paths=tuple(map(str, cluster.stores)))
    grouped = (
        "select tags, count(*) as n from orders where store_time > now() - interval 1 hour"
        " group by tags order by tags"
    )
    for place in (_place(cluster), stores, Archive(path=path)):
        rows = query.run(spark, grouped, places=[place]).collect()
        assert [tuple(row) for row in rows] == [("t0", 30), ("t1", 30)], place
        spark.catalog.dropTempView("orders")
    found = query.run(
        spark,
        "select keys from `order-events` where cast(body as string) like '%\"n\": 7,%'",
        places=[Archive(path=path), _place(cluster)],
    )
    assert [row.keys for row in found.collect()] == ["k7"]
    joined = query.run(
        spark,
        "with few as (select keys, queue_id from orders where queue_id = 1)"
        " select count(*) as n from orders o left join few using (keys)",
        places=[_place(cluster)],
    )
    assert joined.collect()[0].n == 60
    with pytest.raises(ConfigError, match="there is no topic 'nowhere'"):
        query.run(spark, "select * from nowhere", places=[stores, _place(cluster)])
    with pytest.raises(ConfigError, match=r"`colour` cannot be resolved\..*; a message has topic,"):
        query.run(spark, "select colour from orders", places=[stores])
    spark.catalog.dropTempView("orders")


def test_sql_prints_times_as_queries_write_them(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = spark.sql(
        "select timestamp '2026-01-31 12:00:00.5' as t, 1 as n, timestamp '2026-01-31 00:00' as t"
    )
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        out = io.StringIO()
        query.write_rows(frame, out, style="csv")
    finally:
        monkeypatch.undo()
        time.tzset()
    assert out.getvalue() == "t,n,t\n2026-01-31 12:00:00.5,1,2026-01-31 00:00:00\n"


def test_sql_prints_tables_csv_and_json(spark: Any) -> None:
    frame = spark.sql(
        "select 1 as n, 'a,b' as text, cast('é' as binary) as body, map('x', 'y') as m"
    )
    shown = {}
    for style in query.FORMATS:
        out = io.StringIO()
        assert query.write_rows(frame, out, style=style) == 1
        shown[style] = out.getvalue()
    assert shown["table"].splitlines() == ["n  text  body  m", '1  a,b   é     {"x": "y"}']
    assert shown["csv"].splitlines() == ["n,text,body,m", '1,"a,b",é,"{""x"": ""y""}"']
    assert json.loads(shown["json"]) == {"n": 1, "text": "a,b", "body": "é", "m": {"x": "y"}}
