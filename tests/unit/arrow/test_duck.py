"""``contrail sql --engine duckdb``."""

from __future__ import annotations

import importlib.util
import io
import json
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

from contrailmq import main as command
from contrailmq.arrow import duck, read_store, write_table
from contrailmq.errors import ClientError, ConfigError, UsageError
from contrailmq.pipelines.query_command import main
from contrailmq.testing.cluster import ClusterThread
from testkit.golden import store_directories

STORE = store_directories()[0].path
HAS_DUCKDB = importlib.util.find_spec("duckdb") is not None
needs_duckdb = pytest.mark.skipif(not HAS_DUCKDB, reason="DuckDB is not installed")


def _run(query: str, *words: str, style: str = "--json") -> str:
    out = io.StringIO()
    assert main(["--engine", "duckdb", style, query, *words], out) == 0
    return out.getvalue()


def _lines(query: str, *words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in _run(query, *words).splitlines()]


@pytest.mark.skipif(HAS_DUCKDB, reason="DuckDB is installed")
def test_without_duckdb_one_line_says_how_to_get_it(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sql", "--engine", "duckdb", "--store", str(STORE), "select 1"]
    assert command.main(words) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "needs DuckDB, which is not installed; pip install duckdb" in told


def test_what_is_for_spark_is_refused() -> None:
    for words in (["--master", "local"], ["--archive", "/data"], ["--conf", "a=b"]):
        with pytest.raises(UsageError, match=f"{words[0]} is for Spark"):
            _run("select 1", *words)


def test_a_query_reads_the_columns_it_names() -> None:
    assert duck.columns_of("select count(*) from orders") == ["queue_id"]
    assert duck.columns_of("select Tags, count(*) from t where keys = 'a'") == ["keys", "tags"]
    everything = read_store(STORE).schema.names
    for query in ("select * from t", "from t", "summarize t", "select columns('k.*') from t"):
        assert duck.columns_of(query) == everything


@needs_duckdb
def test_a_directory_answers_queries() -> None:
    rows = read_store(STORE, topics="GoldCleanA").read_all().to_pylist()
    store = ("--store", str(STORE))
    (found,) = _lines("select count(*) as n, min(store_time) as first from GoldCleanA", *store)
    assert found["n"] == len(rows)
    assert found["first"].startswith(min(row["store_time"] for row in rows).isoformat(" ")[:23])
    twice = "select count(*) as n from GoldCleanA a join GoldCleanA b using (message_id)"
    assert _lines(twice, *store) == [{"n": len(rows)}]
    text = _run("select queue_id, body from GoldCleanA", *store, "--rows", "2", style="--csv")
    assert text.startswith("queue_id,body\n")
    first = _lines("select properties from GoldCleanA limit 1", *store)[0]["properties"]
    assert list(first.items()) == list(dict(rows[0]["properties"]).items())
    with pytest.raises(ConfigError, match="no table 'nothing': topic nothing is not in"):
        _run("select * from nothing", *store)
    with pytest.raises(ClientError, match="Parser Error"):
        _run("selec", *store)
    with pytest.raises(ClientError, match="colour"):
        _run("select colour from GoldCleanA", *store)


@needs_duckdb
def test_a_cluster_answers_queries(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = ClusterThread()
    try:
        cluster.create_topic("orders", queues=2)
        table = pa.table({"body": ["é"] * 30, "tags": ["paid", "new", "new"] * 10})
        write_table(table, "orders", name_servers=cluster.name_servers)
        words = ["-n", cluster.name_servers, "--engine", "duckdb"]
        query = "select tags, count(*) as n from orders group by tags order by tags"
        assert command.main(["sql", *words, query]) == 0
        assert capsys.readouterr().out.split() == ["tags", "n", "new", "20", "paid", "10"]
        assert command.main(["sql", *words, "select * from nowhere"]) == 1
        assert "there is no table 'nowhere'" in capsys.readouterr().err
    finally:
        cluster.close()
