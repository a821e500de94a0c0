"""What Spark's short-lived Python processes load of us: no event loop, none of what needs one."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("pyspark")

_LOADED = """
import sys
import pyspark.sql.streaming.python_streaming_source_runner
before = set(sys.modules)
import {module}
print(*sorted(set(sys.modules) - before))
"""


@pytest.mark.parametrize("name", ["stream", "reader", "store_stream", "sink"])
def test_a_process_of_spark_loads_no_event_loop(name: str) -> None:
    module = f"contrailmq.spark.{name}"
    done = subprocess.run(
        [sys.executable, "-c", _LOADED.format(module=module)],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    loaded = done.stdout.split()
    assert module in loaded
    heavy = ("asyncio", "uvloop", "ssl", "contrailmq.net", "contrailmq.client.settings")
    assert [name for name in loaded if name in heavy] == []
