"""The jars of Delta and Iceberg: which belong to which Spark, and what to say without them.

They are no part of PySpark.  They come by ``spark.jars.packages`` (Spark fetches them from Maven
Central when it starts), by ``spark.jars`` with a path, or lie in Spark's own folder already.
"""

from __future__ import annotations

from typing import Any, Final

from contrailmq.errors import ConfigError

DELTA: Final = "delta"
ICEBERG: Final = "iceberg"
FORMATS: Final = (DELTA, ICEBERG)

_PACKAGES: Final = {
    DELTA: {
        (4, 0): "io.delta:delta-spark_4.0_2.13:4.4.0",
        (4, 1): "io.delta:delta-spark_4.1_2.13:4.4.0",
        (4, 2): "io.delta:delta-spark_4.2_2.13:4.4.0",
    },
    ICEBERG: {
        (4, 0): "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",
        (4, 1): "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    },
}
_AVRO: Final = "org.apache.spark:spark-avro_2.13:4.1.1"  # the newest there is; read on 4.1 and 4.2
_CLASSES: Final = {
    DELTA: "io.delta.sql.DeltaSparkSessionExtension",
    ICEBERG: "org.apache.iceberg.spark.SparkCatalog",
    "avro": "org.apache.spark.sql.avro.AvroFileFormat",
}
_EXTENSIONS: Final = {
    DELTA: "io.delta.sql.DeltaSparkSessionExtension",
    ICEBERG: "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}
CATALOG: Final = "contrail"  # of Iceberg tables that are given by their path


def packages(kind: str, spark_version: tuple[int, int], *, body: str = "raw") -> list[str]:
    """What to fetch for a format of tables and of bodies; ConfigError where there is none."""
    found = _PACKAGES[kind].get(spark_version)
    if found is None:
        having = ", ".join(f"{major}.{minor}" for major, minor in _PACKAGES[kind])
        raise ConfigError(
            f"no package of {kind} for Spark {spark_version[0]}.{spark_version[1]} is known, there"
            f" are some for {having}; install another PySpark, or name the jar of a newer one with"
            " --conf spark.jars=PATH"
        )
    return [found, *([_AVRO] if body == "avro" else [])]


def settings(kind: str, *, root: str | None) -> dict[str, str]:
    """What a session for a format is made with; ``root``: the folder of tables given by path."""
    found = {"spark.sql.extensions": _EXTENSIONS[kind]}
    if kind == DELTA:
        found["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        # Of the list of a table's files; with Delta's 50 a small batch takes ten times as long.
        found["spark.databricks.delta.snapshotPartitions"] = "4"
    elif root is not None:
        name = f"spark.sql.catalog.{CATALOG}"
        found[name] = _CLASSES[ICEBERG]
        found[f"{name}.type"] = "hadoop"
        found[f"{name}.warehouse"] = root
        found[f"{name}.cache-enabled"] = "false"  # a batch writes in a session of its own
    return found


def check(spark: Any, kind: str, *, body: str = "raw") -> None:
    """Raise, naming the jar and how to get it, unless the session has what a table needs."""
    import pyspark

    jvm = getattr(spark, "_jvm", None)
    if jvm is None:
        raise ConfigError(
            "tables are written by a Spark driver in this process; over Spark Connect run the"
            " project instead: contrail pipeline init table"
        )
    major, minor = pyspark.__version__.split(".")[:2]
    for name in (kind, *(["avro"] if body == "avro" else [])):
        if not _has(jvm, _CLASSES[name]):
            wanted = packages(kind, (int(major), int(minor)), body=body)
            package = next((one for one in wanted if name in one), wanted[0])
            raise ConfigError(
                f"the jar of {name} is missing in this Spark {pyspark.__version__}; add"
                f" --fetch-jars or --conf spark.jars.packages={package} to fetch it from Maven"
                " Central, or --conf spark.jars=PATH"
            )


def _has(jvm: Any, name: str) -> bool:
    loader = jvm.Thread.currentThread().getContextClassLoader()
    try:
        jvm.java.lang.Class.forName(name, False, loader)
    except Exception:
        return False
    return True
