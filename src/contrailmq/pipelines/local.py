"""A Spark session for one command: quiet at the start, ended with its Java process at the end."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from contrailmq.errors import ClientError, ConfigError

JAVA_VERSION: Final = 17
JAVA_END_S: Final = 20.0
_QUIET: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
}


@contextlib.contextmanager
def command_session(
    name: str,
    *,
    master: str | None = None,
    remote: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Any]:
    """A session while a command runs; what Spark says while it starts goes nowhere.

    ``remote`` is a Spark Connect server, for which no Java is needed here.
    """
    remote = remote or os.environ.get("SPARK_REMOTE")
    fault = java_fault() if remote is None else None
    if fault is not None:
        raise ConfigError(
            f"Spark needs Java {JAVA_VERSION} or newer: {fault}; install it (Debian and Ubuntu: "
            f"apt-get install openjdk-{JAVA_VERSION}-jre-headless), or name it in JAVA_HOME"
        )
    fault = python_fault() if remote is None else None
    if fault is not None:
        raise ConfigError(fault)
    from pyspark.errors import PySparkException
    from pyspark.logger import PySparkLogger

    from contrailmq.spark.scratch import Scratch
    from contrailmq.spark.session import session

    # Spark logs every error of a query that it raises as well.
    for logger in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(logger).setLevel(logging.CRITICAL)
    with (
        terminable(),
        without_log(),
        Scratch() as folder,
    ):
        own = {"spark.sql.warehouse.dir": f"{folder}/warehouse", "spark.local.dir": str(folder)}
        if master is None and "MASTER" not in os.environ:
            own["spark.driver.host"] = own["spark.driver.bindAddress"] = "127.0.0.1"
        with _silenced(folder / "start.log"):
            chosen = {**_QUIET, **own, **(settings or {})}
            spark = session(name, master=master, remote=remote, settings=chosen)
        try:
            yield spark
        except PySparkException as error:
            raise ClientError(reason(str(error))) from error
        finally:
            with _silenced(folder / "end.log"):
                _end(spark)


def reason(text: str) -> str:
    """What failed, out of all that Spark says about it: our own error if there is one."""
    ours = re.findall(r"^(?:\S*: )?contrailmq\.errors\.\w+: (.+)$", text, re.MULTILINE)
    if ours:
        return str(ours[-1]).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else "Spark failed and does not say why"


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Meanwhile SIGTERM is a KeyboardInterrupt, so that folders and processes go in order."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def without_log() -> Iterator[None]:
    """Meanwhile nothing is logged: py4j logs a stack trace of every call that Ctrl-C interrupts."""
    loggers = [logging.getLogger(), logging.getLogger("py4j")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def python_fault() -> str | None:
    """Why Spark could not find its sources with this Python, or None: it asks a shell, unquoted."""
    python = os.environ.get("PYSPARK_PYTHON", sys.executable)
    if len(python.split()) < 2:
        return None
    return (
        f"Spark cannot use {python}, for its path has a blank in it; make the environment in "
        "another folder, or name another Python in PYSPARK_PYTHON"
    )


def java_fault() -> str | None:
    """Why the Java that Spark would take cannot run it, or None; JAVA_HOME goes before PATH."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(f"{home}/bin/java" if home else "java")
    if java is None:
        return f"JAVA_HOME={home} has no bin/java" if home else "there is no java in PATH"
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(\d+)', done.stderr + done.stdout)
    if found is None or int(found[1]) < JAVA_VERSION:
        return f"{java} is {found[1] if found else 'of no known version'}"
    return None


def _end(spark: Any) -> None:
    spark.stop()
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.stdin.close()
        try:
            process.wait(JAVA_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def _silenced(path: Path) -> Iterator[None]:
    """What is written to standard error meanwhile, by children too, goes to a file.

    When it fails, the file is shown; not to who interrupts it.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with path.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    except Exception:
        os.dup2(kept, 2)
        sys.stderr.write(path.read_text(errors="replace")[-4000:])
        raise
    finally:
        os.dup2(kept, 2)
        os.close(kept)
