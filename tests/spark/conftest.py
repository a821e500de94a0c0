"""One local Spark for all tests of this folder, and topics with known messages."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contrailmq.testing.cluster import ClusterThread

HERE = Path(__file__).resolve().parent
SRC = HERE.parents[1] / "src"
# Virtual machines that live for seconds on two cores: no second compiler, no threads to collect.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"


@pytest.fixture(scope="session")
def spark_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Spark without its zipped copy of PySpark: workers import the one that is installed.

    That takes a third of the processor time (0.3 s instead of 0.9 s), and Spark gives up a worker
    that has not started after ten seconds, whatever else the machine does.
    """
    import pyspark

    home = tmp_path_factory.mktemp("spark-home")
    for name in ("bin", "sbin", "jars"):
        (home / name).symlink_to(Path(pyspark.__file__).parent / name)
    return home


@pytest.fixture(scope="module", autouse=True)
def _short_lived_machines(spark_home: Path) -> Iterator[None]:
    """For every Java process that a module starts; not for those of other folders."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", JAVA_OPTIONS)
        patch.setenv("SPARK_HOME", str(spark_home))
        yield


@pytest.fixture(scope="session")
def spark(spark_home: Path) -> Iterator[Any]:
    """A session on two local cores."""
    from contrailmq.spark import session

    # Workers are processes of their own: they find us as an installed package would be found.
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(SRC), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_HOME", str(spark_home))
        found = session("contrailmq-tests", master="local[2]", settings=settings)
    found.sparkContext.setLogLevel("ERROR")
    yield found
    found.stop()


@pytest.fixture
def cluster() -> Iterator[ClusterThread]:
    """A name server and two brokers whose files are small, so that they roll."""
    found = ClusterThread(brokers=2, properties={"mappedFileSizeCommitLog": str(1024 * 1024)})
    try:
        yield found
    finally:
        found.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Starting Spark takes longer than a test may on a busy machine."""
    for item in items:
        if item.path.parent == HERE and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(400))
