"""RocketMQ in Spark: topics and store directories as DataFrames, and DataFrames into topics."""

from contrailmq.spark.bodies import json_body, json_schema, text_of
from contrailmq.spark.session import session

__all__ = ["json_body", "json_schema", "session", "text_of"]
