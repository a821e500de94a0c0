"""A SparkSession with the settings this source was measured with."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import SparkSession

from contrailmq.errors import ConfigError
from contrailmq.spark.home import quick_home

# Java's Arrow compares every place it reads with the size of its buffer, and whether it is null
# although Spark has asked that before; both cost a tenth to a fifth of reading properties.
JAVA_OPTIONS: Final = (
    "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
)

SETTINGS: Final[Mapping[str, str]] = {
    "spark.driver.defaultJavaOptions": JAVA_OPTIONS,
    "spark.executor.defaultJavaOptions": JAVA_OPTIONS,
    # Python workers over Unix sockets: a task costs a fifth of what it costs over TCP.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    # Before 4.2: a run of a stream with availableNow goes on after the batch it had to repeat.
    "spark.sql.streaming.triggerAvailableNowWrapper.enabled": "true",
}

_SERVERS: Final = frozenset(
    {"spark.sql.warehouse.dir", "spark.sql.streaming.numRecentProgressUpdates"}
)


def session(
    app_name: str = "contrailmq",
    *,
    master: str | None = None,
    remote: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session that finds ``rocketmq`` and ``rocketmq-store``; an existing one is returned as is.

    Without ``master`` what spark-submit or the environment says, or else ``local[*]``. Workers run
    this very interpreter unless PYSPARK_PYTHON says otherwise.  With ``remote``, or SPARK_REMOTE in
    the environment, a session of a Spark Connect server, which has its own workers: only settings
    of SQL are asked of it.

    The session becomes the active one of the calling thread.  Spark looks for the format of a
    write there alone: a thread that only writes has to call this first.
    """
    if remote is not None and not remote.startswith("sc://"):
        raise ConfigError(
            f"remote = {remote!r}: expected sc://host:port of a Spark Connect server; "
            "master= is for Spark in this process"
        )
    given = {**SETTINGS, **(settings or {})}
    remote = remote or os.environ.get("SPARK_REMOTE")
    if remote is not None and master is None and remote.startswith("sc://"):
        connect = SparkSession.builder.remote(remote)
        for name, value in given.items():
            if name.startswith("spark.sql.") and name not in _SERVERS:
                connect = connect.config(name, value)
        return connect.getOrCreate()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
    for name, value in given.items():
        builder = builder.config(name, value)
    with quick_home(master or given.get("spark.master")):
        found = builder.getOrCreate()
    _activate(found)
    return found


def _activate(found: Any) -> None:
    """Make a session the active one of this thread, as ``createDataFrame`` does in passing."""
    if hasattr(found, "_jsparkSession"):  # a Connect server does that itself
        sessions = found._jvm.org.apache.spark.sql.classic.SparkSession
        sessions.setActiveSession(found._jsparkSession)
