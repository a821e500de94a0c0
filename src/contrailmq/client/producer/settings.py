"""What can be chosen about a producer, with Java's defaults.

Apart from the other settings, which need the network: Spark's sink sends without an event loop.
"""

from __future__ import annotations

from dataclasses import dataclass

from contrailmq.protocol.compression import Compression


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """How a producer sends (DefaultMQProducer)."""

    send_timeout_s: float = 3.0
    """The time for one send, all attempts together."""
    retries: int = 2
    """How many further attempts a failed send gets, each at another broker if there is one."""
    retry_not_stored: bool = False
    """Whether to try another broker if the first one stored the message but its flush or its slave
    was late."""
    compress_over: int = 4096
    """Bodies of at least this many bytes are compressed."""
    compression: Compression = Compression.ZLIB
    """How bodies are compressed."""
    compression_level: int = 5
    """The level of compression, from 1 (fast) to 9 (small)."""
    message_size_max: int = 4 * 1024 * 1024
    """The largest body in bytes. A larger one is refused before it is sent."""
    default_topic: str = "TBW102"
    """The topic whose route is used for a topic that does not exist yet."""
    default_topic_queues: int = 4
    """How many queues a topic gets that a send creates."""
    avoid_faults: bool = False
    """Whether to avoid brokers that were slow or failed lately."""
    in_flight_size_max: int = 64 * 1024 * 1024
    """Bytes of sends without an answer. Further sends wait."""
    in_flight_count_max: int = 32768
    """Number of sends without an answer. Further sends wait."""
    batch_size: int = 0
    """Bytes per batch. Above 0, single sends to one topic are joined into batches."""
    batch_wait_s: float = 0.001
    """How long a send may wait for others to join its batch."""
    batch_count_max: int = 512
    """Most messages per batch."""
    trace_topic: str | None = None
    """The topic for message traces, for example `RMQ_SYS_TRACE_TOPIC`. None sends no traces."""
    close_timeout_s: float = 10.0
    """How long closing waits for sends that are under way."""
