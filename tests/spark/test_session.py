"""The session helper as a user calls it: in a process where nothing is set."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark
SRC = Path(__file__).resolve().parents[2] / "src"

SCRIPT = """
import json
from contrailmq.spark import session

def place(_):
    import os, py4j, pyspark
    return [os.path.realpath(package.__file__) for package in (pyspark, py4j)]

spark = session("test", master="local[1]", settings={"spark.ui.enabled": "false"})
print(json.dumps(spark.sparkContext.parallelize([0], 1).map(place).collect()[0]))
spark.stop()
"""


def test_workers_of_a_local_session_import_the_installed_code_not_a_zip() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**environment, "PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    import py4j
    import pyspark

    found = json.loads(done.stdout.splitlines()[-1])
    assert found == [os.path.realpath(package.__file__) for package in (pyspark, py4j)]
