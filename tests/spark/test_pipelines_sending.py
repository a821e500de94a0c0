"""Redrive and replay: who is sent, when, and never twice; on a real local Spark."""

from __future__ import annotations

import csv
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from contrailmq import blocking
from contrailmq.errors import ConfigError
from contrailmq.pipelines import message_report, redrive, replay
from contrailmq.pipelines.places import Cluster, Stores, read_messages
from contrailmq.pipelines.progress import Progress, Stop
from contrailmq.testing.cluster import ClusterThread
from testkit.spark_kit import send

pytestmark = pytest.mark.spark
DEAD = "%DLQ%billing"


def _place(cluster: ClusterThread) -> Cluster:
    return Cluster(name_servers=cluster.name_servers)


def _rows(spark: Any, cluster: ClusterThread, topic: str) -> list[Any]:
    return list(read_messages(spark, _place(cluster), topics=[topic]).collect())


def _number(row: Any) -> int:
    return int(json.loads(bytes(row.body))["n"])


def _bury(cluster: ClusterThread, count: int) -> None:
    """Let a group fail so often that its messages die, as a broker does it."""
    cluster.create_topic("orders", queues=2)
    send(cluster.name_servers, "orders", range(count))
    buried = threading.Semaphore(0)

    def refuse(message: Any) -> None:
        buried.release()
        raise ValueError("cannot be paid")

    with blocking.PushConsumer(
        "billing", "orders", refuse, name_servers=cluster.name_servers, start="first",
        max_reconsume_times=0,
    ):  # fmt: skip
        for _ in range(count):
            assert buried.acquire(timeout=30)
        _await_dead(cluster, count)


def _await_dead(cluster: ClusterThread, count: int) -> None:
    with blocking.PullConsumer("probe", name_servers=cluster.name_servers) as puller:
        for _ in range(300):
            try:
                queues = puller.queues(DEAD)
                if sum(puller.max_offset(queue) for queue in queues) >= count:
                    return
            except Exception as error:
                last = error
            threading.Event().wait(0.1)
        raise AssertionError(f"not dead yet: {last}")
