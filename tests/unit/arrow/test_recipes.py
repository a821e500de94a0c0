"""The recipes of docs/arrow.md run as they are written there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

from contrailmq.arrow import read_topic, write_table
from contrailmq.testing.cluster import ClusterThread

PAGE = Path(__file__).resolve().parents[3] / "docs" / "arrow.md"
RECIPES = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
NEEDED = ("duckdb", "polars", "pandas")
COUNT = 60


@pytest.fixture(scope="module", autouse=True)
def _polars_is_ready() -> None:
    """Polars opens its event polls with the first query and keeps them."""
    if _has("polars"):
        import polars

        polars.DataFrame({"a": [1]}).lazy().group_by("a").len().collect()


@pytest.fixture
def shop() -> Iterator[ClusterThread]:
    """The broker the page speaks of."""
    cluster = ClusterThread()
    try:
        for topic in ("orders", "results"):
            cluster.create_topic(topic, queues=2)
        tags = ["paid" if number % 3 else "new" for number in range(COUNT)]
        table = pa.table({"body": ["12345678"] * COUNT, "tags": tags})
        write_table(table, "orders", name_servers=cluster.name_servers)
        yield cluster
    finally:
        cluster.close()


def _said(text: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What a recipe prints."""
    exec(compile(text, str(PAGE), "exec"), {})
    return capsys.readouterr().out


def test_the_recipes_run(
    shop: ClusterThread, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {
        "10.0.0.5:9876": shop.name_servers,
        "/data/rocketmq/store": str(shop.stores[0]),
        "/data/": f"{tmp_path}/",
    }
    expected = {
        "for batch in reader": r"\['keys', 'body', 'store_time'\]",
        "read_pandas": r"(?s)new +20.*paid +40",
        "pyarrow.dataset": r"^40\n$",
        "import duckdb": r"(?s)(20 │ +8\.0.*40 │ +8\.0|40 │ +8\.0.*20 │ +8\.0)",
        "import polars": r"(?s)(20.*40|40.*20)",
        "import pyarrow as pa": r"^2\n$",
        '"results"': rf"^{COUNT + 2}\n$",
    }
    assert len(RECIPES) == len(expected)
    for recipe, (mark, printed) in zip(RECIPES, expected.items(), strict=True):
        assert mark in recipe
        if not all(
            _has(name) for name in NEEDED if name in recipe.replace("read_pandas", "pandas")
        ):
            continue
        for written, meant in places.items():
            recipe = recipe.replace(written, meant)
        said = _said(recipe, capsys)
        assert re.search(printed, said), said
    copied = read_topic("results", name_servers=shop.name_servers, columns=["queue_id"])
    assert copied.read_all().num_rows == COUNT + 2


def _has(name: str) -> bool:
    try:
        __import__(name)
    except ImportError:
        return False
    return True
