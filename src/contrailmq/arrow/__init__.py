"""Topics and store directories as Arrow batches, and Arrow tables into topics, without Spark."""

from contrailmq.arrow.reading import read_store, read_topic
from contrailmq.arrow.writing import write_table

__all__ = ["read_store", "read_topic", "write_table"]
