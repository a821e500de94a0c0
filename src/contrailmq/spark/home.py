"""A home of Spark whose Python workers start quickly.

The package of Spark from the registry has its Python code twice: installed, and once more as
``python/lib/pyspark.zip``, which Spark puts first on the path of every worker.  Python keeps no
bytecode of what is in a zip file, so every process that Spark starts would compile it anew: half a
second of processor time and more, several times for each streaming query.

The home made here consists of links to the same Spark.  Only what is called ``pyspark.zip`` in it
is a folder, with links to the installed packages, whose bytecode Python keeps.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyspark

from contrailmq.spark.scratch import Scratch

HOME_VARIABLE: Final = "SPARK_HOME"
_GATEWAY_VARIABLE: Final = "PYSPARK_GATEWAY_PORT"  # Spark was there before Python
_LINKED: Final = ("bin", "conf", "data", "jars", "sbin")


@contextmanager
def quick_home(master: str | None) -> Iterator[None]:
    """While it lasts, a session that starts Spark in this process's own machine does so from there.

    Nothing happens where the user has chosen a home, where Spark runs already, and unless
    ``master`` says local: elsewhere a home is more than what is needed here.
    """
    home = None
    if master is not None and is_local(master) and not _is_decided():
        home = make_home()
    if home is None:
        yield
        return
    os.environ[HOME_VARIABLE] = str(home)
    try:
        yield
    finally:
        del os.environ[HOME_VARIABLE]


def is_local(master: str) -> bool:
    """Whether tasks run in the driver's own process."""
    return master == "local" or master.startswith("local[")


def make_home() -> Path | None:
    """The home, until this process ends; None where there is no whole Spark, or there are no links.

    Spark itself may still be ending then: by that time it has opened what it needs of it.
    """
    import py4j  # a client of Spark Connect may have none of it

    installed = Path(pyspark.__file__).parent
    if not (installed / "jars").is_dir() or not (installed / "bin" / "spark-submit").exists():
        return None
    scratch = Scratch()
    atexit.register(scratch.remove)
    home = scratch.path
    code = home / "python" / "lib" / "pyspark.zip"
    try:
        code.mkdir(parents=True)
        for package in (installed, Path(py4j.__file__).parent):
            (code / package.name).symlink_to(package)
        for name in _LINKED:
            if (installed / name).exists():
                (home / name).symlink_to(installed / name)
    except OSError:
        return None
    return home


def _is_decided() -> bool:
    from pyspark import SparkContext  # not there in the package for clients of Spark Connect

    return (
        HOME_VARIABLE in os.environ
        or _GATEWAY_VARIABLE in os.environ
        or SparkContext._gateway is not None
    )
