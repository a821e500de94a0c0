"""The two data sources Spark finds by name: ``rocketmq`` and ``rocketmq-store``.

Spark imports every source it discovers in every session, so this module loads what does the work
only when a source is used.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
)
from pyspark.sql.types import StructType

from contrailmq.errors import ContrailError


class RocketMQSource(DataSource):
    """``format("rocketmq")``: topics through their brokers, to read and to write."""

    @classmethod
    def name(cls) -> str:
        """What goes into ``format(...)``."""
        return "rocketmq"

    def schema(self) -> StructType:
        """The columns without a given schema: all."""
        from contrailmq.spark.columns import message_schema

        return message_schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads once."""
        from contrailmq.bulk.options import source_options
        from contrailmq.spark.reader import TopicReader

        return TopicReader(source_options(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Reads on and on."""
        from contrailmq.bulk.options import source_options
        from contrailmq.spark.stream import TopicStreamReader

        return _or_refused(lambda: TopicStreamReader(source_options(self.options), schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Writes once."""
        from contrailmq.bulk.options import sink_options
        from contrailmq.spark.sink import TopicWriter

        return TopicWriter(sink_options(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Writes every micro-batch."""
        from contrailmq.bulk.options import sink_options
        from contrailmq.spark.sink import TopicStreamWriter

        return TopicStreamWriter(sink_options(self.options), schema, overwrite=overwrite)


class RocketMQStoreSource(DataSource):
    """``format("rocketmq-store")``: topics straight from store directories, no broker asked."""

    @classmethod
    def name(cls) -> str:
        """What goes into ``format(...)``."""
        return "rocketmq-store"

    def schema(self) -> StructType:
        """The columns without a given schema; with ``onDamage=report`` one more."""
        from contrailmq.bulk.options import store_options
        from contrailmq.spark.columns import message_schema

        return message_schema(with_damage=not store_options(self.options).fail_on_damage)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads once."""
        from contrailmq.bulk.options import store_options
        from contrailmq.spark.store_reader import StoreTopicReader

        return StoreTopicReader(store_options(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Follows directories that grow."""
        from contrailmq.bulk.options import store_options
        from contrailmq.spark.store_stream import StoreStreamReader

        return _or_refused(lambda: StoreStreamReader(store_options(self.options), schema))


def _or_refused(make: Callable[[], DataSourceStreamReader]) -> DataSourceStreamReader:
    try:
        return make()
    except ContrailError as error:
        from contrailmq.spark.refused import RefusedStream

        return RefusedStream(error)
