"""The home of Spark that a local session starts from: the same Spark, its code not zipped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyspark

from contrailmq.spark.home import is_local, make_home, quick_home

pytestmark = pytest.mark.spark
INSTALLED = Path(pyspark.__file__).parent


@pytest.fixture(autouse=True)
def _nothing_decided(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # homes stay until the process ends
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setattr(pyspark.SparkContext, "_gateway", None)


def test_a_home_has_the_same_spark_and_its_code_unpacked() -> None:
    home = make_home()
    assert home is not None
    assert (home / "bin" / "spark-submit").samefile(INSTALLED / "bin" / "spark-submit")
    assert (home / "jars").samefile(INSTALLED / "jars")
    code = home / "python" / "lib" / "pyspark.zip"
    assert (code / "pyspark" / "worker.py").samefile(INSTALLED / "worker.py")
    assert (code / "py4j" / "java_gateway.py").exists()


def test_it_is_said_to_spark_only_while_a_local_session_starts() -> None:
    with quick_home("local[2]"):
        home = Path(os.environ["SPARK_HOME"])
        assert (home / "jars").is_dir()
    assert "SPARK_HOME" not in os.environ
    with pytest.raises(RuntimeError), quick_home("local"):
        raise RuntimeError
    assert "SPARK_HOME" not in os.environ


@pytest.mark.parametrize("master", [None, "spark://host:7077", "yarn", "local-cluster[2,1,1024]"])
def test_elsewhere_nothing_changes(master: str | None) -> None:
    with quick_home(master):
        assert "SPARK_HOME" not in os.environ


def test_what_the_user_has_chosen_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    with quick_home("local[2]"):
        assert os.environ["SPARK_HOME"] == "/opt/spark"
    assert os.environ["SPARK_HOME"] == "/opt/spark"


def test_a_spark_that_runs_keeps_its_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark.SparkContext, "_gateway", object())
    with quick_home("local[2]"):
        assert "SPARK_HOME" not in os.environ


def test_without_a_whole_spark_there_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pyspark, "__file__", str(tmp_path / "__init__.py"))
    assert make_home() is None
    with quick_home("local[2]"):
        assert "SPARK_HOME" not in os.environ


@pytest.mark.parametrize(
    ("master", "expected"), [("local", True), ("local[*]", True), ("local-cluster[1,1,1]", False)]
)
def test_local_is_this_process(master: str, expected: bool) -> None:
    assert is_local(master) is expected
