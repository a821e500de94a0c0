"""What Spark looks for: a top-level package ``pyspark_…`` with a ``DefaultSource``."""

from contrailmq.spark.source import RocketMQStoreSource as DefaultSource

__all__ = ["DefaultSource"]
