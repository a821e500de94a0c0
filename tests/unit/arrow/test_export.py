"""``contrail export``: topics and directories as Parquet files."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from contrailmq import main as command
from contrailmq.arrow import read_store, write_table
from contrailmq.arrow.export_command import main
from contrailmq.arrow.parquet import write_files
from contrailmq.errors import ConfigError, UsageError
from contrailmq.testing.cluster import ClusterThread
from testkit.golden import store_directories

STORE = store_directories()[0].path


def _run(*words: str) -> dict[str, int]:
    out = io.StringIO()
    assert main([*words, "--json"], out) == 0
    found: dict[str, int] = json.loads(out.getvalue())
    return found


def test_a_topic_of_a_cluster_becomes_files(tmp_path: Path) -> None:
    cluster = ClusterThread()
    try:
        cluster.create_topic("orders", queues=2)
        tags = ["paid" if number % 4 else "new" for number in range(400)]
        table = pa.table({"body": [str(number) for number in range(400)], "tags": tags})
        write_table(table, "orders", name_servers=cluster.name_servers)
        where = ("orders", "-n", cluster.name_servers)
        done = _run(*where, "--parquet", str(tmp_path / "a"), "--rows-per-file", "150")
        assert (done["rows"], done["files"]) == (400, 3)
        bodies = ds.dataset(tmp_path / "a").to_table()["body"].to_pylist()
        assert sorted(map(int, bodies)) == list(range(400))
        done = _run(*where, "--parquet", str(tmp_path / "b"), "--tags", "new", "--columns", "body")
        assert done["rows"] == 100
        assert pq.read_table(tmp_path / "b").schema.names == ["body"]
        done = _run(*where, "--parquet", str(tmp_path / "c"), "--from", "last")
        assert (done["rows"], done["files"]) == (0, 1)
        assert pq.read_table(tmp_path / "c").num_rows == 0
    finally:
        cluster.close()


def test_a_directory_becomes_files_of_its_rows(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "files"
    done = _run("GoldCleanA", "--store", str(STORE), "--parquet", str(folder))
    wanted = read_store(STORE, topics="GoldCleanA", cores=1).read_all()
    keys = [("queue_id", "ascending"), ("queue_offset", "ascending")]
    found = pq.read_table(folder).sort_by(keys)
    assert done == {"rows": wanted.num_rows, "files": 1, "bytes": done["bytes"]}
    assert found.to_pylist() == wanted.sort_by(keys).to_pylist()
    assert done["bytes"] == sum(path.stat().st_size for path in folder.iterdir())


def test_files_that_are_there_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(ConfigError, match="is not an empty folder; name a new one"):
        _run("GoldCleanA", "--store", str(STORE), "--parquet", str(tmp_path))
    with pytest.raises(UsageError, match="--sql is judged by brokers"):
        _run("A", "--store", str(STORE), "--sql", "a > 1", "--parquet", str(tmp_path / "x"))
    with pytest.raises(ConfigError, match="topic Nothing is not in"):
        _run("Nothing", "--store", str(STORE), "--parquet", str(tmp_path / "x"))
    assert not (tmp_path / "x").exists()


def test_a_run_that_fails_leaves_no_half_file_of_that_name(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64())])

    def broken() -> pa.RecordBatchReader:
        def batches():  # type: ignore[no-untyped-def]
            for number in range(5):
                yield pa.record_batch({"n": [number] * 10})
            raise ConfigError("the broker is gone")

        return pa.RecordBatchReader.from_batches(schema, batches())

    with pytest.raises(ConfigError, match="the broker is gone"):
        write_files(broken, tmp_path, rows_per_file=20)
    whole = sorted(path.name for path in tmp_path.glob("*.parquet"))
    assert whole == ["part-00000.parquet"]
    assert ds.dataset([tmp_path / name for name in whole]).to_table()["n"].to_pylist() == (
        [0] * 10 + [1] * 10
    )


def test_the_command_is_one_of_contrail(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["export", "orders"]) == 2
    assert "--parquet" in capsys.readouterr().err
