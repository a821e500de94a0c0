"""The recipes of docs/arrow.md run as they are written there."""

from __future__ import annotations

import importlib.util
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
# What each recipe is known by, the package it needs beside pyarrow, and what it prints.
EXPECTED = [
    ("for batch in reader", "", r"\['keys', 'body', 'store_time'\]"),
    ("read_pandas", "pandas", r"(?s)new +20.*paid +40"),
    ("pyarrow.dataset", "", r"^40\n$"),
    ("import duckdb", "duckdb", r"(?s)(20 │ +8\.0.*40 │ +8\.0|40 │ +8\.0.*20 │ +8\.0)"),
    ("import polars", "polars", r"(?s)(20.*40|40.*20)"),
    ("import pyarrow as pa", "", r"^2\n$"),
    ('"results"', "", r"^62\n$"),
]
COUNT = 60


@pytest.fixture(scope="module", autouse=True)
def _polars_is_ready() -> None:
    """Polars opens its event polls with the first query and keeps them."""
    if importlib.util.find_spec("polars") is not None:
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


def test_every_recipe_is_known() -> None:
    assert len(RECIPES) == len(EXPECTED)
    assert all(mark in text for text, (mark, _, _) in zip(RECIPES, EXPECTED, strict=True))


@pytest.mark.parametrize("package", ["", "pandas", "duckdb", "polars"])
def test_recipes_run(
    package: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if package:
        pytest.importorskip(package)
    shop: ClusterThread = request.getfixturevalue("shop")
    places = {
        "10.0.0.5:9876": shop.name_servers,
        "/data/rocketmq/store": str(shop.stores[0]),
        "/data/": f"{tmp_path}/",
    }
    for recipe, (_, needed, printed) in zip(RECIPES, EXPECTED, strict=True):
        if needed != package:
            continue
        for written, meant in places.items():
            recipe = recipe.replace(written, meant)
        exec(compile(recipe, str(PAGE), "exec"), {})
        said = capsys.readouterr().out
        assert re.search(printed, said), said
    copied = read_topic("results", name_servers=shop.name_servers, columns=["queue_id"])
    assert copied.read_all().num_rows == (0 if package else COUNT + 2)
