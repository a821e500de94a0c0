"""A store directory followed while its broker writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contrailmq.bulk.options import store_options
from contrailmq.errors import ConfigError
from contrailmq.spark.columns import message_schema
from contrailmq.spark.store_stream import StoreStreamReader
from contrailmq.testing.cluster import ClusterThread
from testkit.spark_kit import send

pytestmark = pytest.mark.spark


def test_a_live_directory_is_followed(spark: Any, cluster: ClusterThread, tmp_path: Path) -> None:
    cluster.create_topic("orders", queues=2)
    send(cluster.name_servers, "orders", range(3000), size=400)
    stores = [str(path) for path in cluster.stores]
    frame = (
        spark.readStream.format("rocketmq-store")
        .options(path=",".join(stores), topics="orders", broker="a,b", maxOffsetsPerTrigger="2000")
        .load()
    )

    def run() -> list[int]:
        query = (
            frame.writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "check"))
            .option("path", str(tmp_path / "out"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        rows = spark.read.parquet(str(tmp_path / "out")).collect()
        return sorted(json.loads(bytes(row.body))["n"] for row in rows)

    assert run() == list(range(3000))
    send(cluster.name_servers, "orders", range(3000, 9000), size=400)  # files roll
    assert run() == list(range(9000))
    cluster.stop_broker(0)
    cluster.start_broker(0)
    send(cluster.name_servers, "orders", range(9000, 9100))
    assert run() == list(range(9100))


def test_a_topic_that_no_directory_has_is_refused(cluster: ClusterThread) -> None:
    """A misspelt name; a topic without messages is one that the broker has written down."""
    options = store_options({"path": str(cluster.stores[0]), "topics": "ordres"})
    reader = StoreStreamReader(options, message_schema())
    with pytest.raises(ConfigError, match="topic ordres is not in"):
        reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    reader.stop()
