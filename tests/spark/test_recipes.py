"""The recipes of docs/spark.md and docs/pipelines.md run as they are written there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contrailmq.testing.cluster import ClusterThread
from testkit.spark_kit import send

pytestmark = pytest.mark.spark
DOCS = Path(__file__).resolve().parents[2] / "docs"
COUNT = 60


@pytest.fixture(scope="module")
def shop() -> Iterator[ClusterThread]:
    """The broker the pages speak of."""
    cluster = ClusterThread(brokers=1)
    try:
        for topic in ("orders", "results"):
            cluster.create_topic(topic, queues=2)
        send(cluster.name_servers, "orders", range(COUNT))
        yield cluster
    finally:
        cluster.close()


def _recipes(page: str, cluster: ClusterThread, folder: Path) -> list[str]:
    """The Python of a page, with the addresses and paths of this test."""
    found = re.findall(
        r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE
    )
    places = {
        "10.0.0.5:9876": cluster.name_servers,
        "/data/rocketmq/store": str(cluster.stores[0]),
        "/data/": f"{folder}/",
    }
    recipes = []
    for text in found:
        for written, meant in places.items():
            text = text.replace(written, meant)
        recipes.append(text)
    return recipes


def _count(spark: Any, cluster: ClusterThread, topic: str) -> int:
    reader = spark.read.format("rocketmq").options(nameServers=cluster.name_servers, topics=topic)
    return int(reader.load().count())


def test_the_recipes_of_the_spark_page(
    spark: Any, shop: ClusterThread, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = (
        spark.readStream.format("rocketmq")
        .options(nameServers=shop.name_servers, topics="orders")
        .load()
    )
    names: dict[str, Any] = {
        "spark": spark,
        "stream": stream,
        "frame": spark.sql("select id, 'kind' as kind from range(10)"),
    }
    recipes = _recipes("spark.md", shop, tmp_path)
    assert len(recipes) >= 7
    for recipe in recipes:
        exec(compile(recipe, "docs/spark.md", "exec"), names)
    assert "30" in capsys.readouterr().out, "the counts of two tags"
    assert spark.read.parquet(f"{tmp_path}/orders").count() == COUNT
    assert _count(spark, shop, "results") == 10


def test_the_recipe_of_the_pipelines_page(
    spark: Any, shop: ClusterThread, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (recipe,) = _recipes("pipelines.md", shop, tmp_path)
    exec(compile(recipe, "docs/pipelines.md", "exec"), {})
    out = capsys.readouterr().out
    assert f"archive: {COUNT} messages" in out
    assert re.search(r"\|\s*t1\|\s*30\|", out)
    files = list((tmp_path / "archive").rglob("*.parquet"))
    assert files, json.dumps([str(path) for path in tmp_path.iterdir()])
