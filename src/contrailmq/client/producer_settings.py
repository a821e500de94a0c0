"""What can be chosen about a producer, with Java's defaults.

Apart from the other settings, which need the network: Spark's sink sends without an event loop.
"""

from __future__ import annotations

from dataclasses import dataclass

from contrailmq.protocol.compression import Compression


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """How a producer sends (DefaultMQProducer)."""

    send_timeout_s: float = 3.0  # the whole budget of one send, tries included
    retries: int = 2
    retry_not_stored: bool = False  # try another broker when a flush or a replica was late
    compress_over: int = 4096
    compression: Compression = Compression.ZLIB
    compression_level: int = 5
    message_size_max: int = 4 * 1024 * 1024
    default_topic: str = "TBW102"
    default_topic_queues: int = 4
    avoid_faults: bool = False
    in_flight_size_max: int = 64 * 1024 * 1024  # accepted and not yet answered; more waits
    in_flight_count_max: int = 32768
    batch_size: int = 0  # bytes; above 0, single sends are joined into batches
    batch_wait_s: float = 0.001
    batch_count_max: int = 512
    trace_topic: str | None = None  # for example RMQ_SYS_TRACE_TOPIC; None: no message trace
    close_timeout_s: float = 10.0
