"""Bodies of topics and their registration.

A registration comes plain, as the JSON of ``RegisterBrokerBody``, or compressed: zlib over the
data version as JSON, the count of topics, each topic as one line of text, the filter servers as a
JSON array and, from 5.0 on, the count of queue mappings and each mapping as JSON.  Every item has
its size before it as a big-endian int.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any, ClassVar, Final

import msgspec

from contrailmq.errors import RemoteProtocolError
from contrailmq.protocol.bodies.body import Body, Int, Long
from contrailmq.protocol.bodies.version import DataVersion
from contrailmq.protocol.fastjson import dumps, loads

PERM_PRIORITY: Final = 8
PERM_READ: Final = 4
PERM_WRITE: Final = 2
PERM_INHERIT: Final = 1

INFLATED_SIZE_MAX: Final = 128 * 1024 * 1024


class TopicConfig(Body):
    """One topic: how many queues, what may be done with them.

    Stored ``attributes`` have no sign before their names; a request's have.
    """

    SINCE_5: ClassVar[frozenset[str]] = frozenset({"attributes"})

    attributes: dict[str, str] = {}
    order: bool = False
    perm: Int = PERM_READ | PERM_WRITE
    read_queue_nums: Int = 16
    topic_filter_type: str = "SINGLE_TAG"
    topic_name: str = ""
    topic_sys_flag: Int = 0
    write_queue_nums: Int = 16

    def encode_line(self, *, legacy: bool = False) -> str:
        """The topic as one line of text, as compressed registrations have it."""
        line = (
            f"{self.topic_name} {self.read_queue_nums} {self.write_queue_nums} "
            f"{self.perm} {self.topic_filter_type}"
        )
        return line if legacy else f"{line} {dumps(self.attributes).decode()}"

    @classmethod
    def decode_line(cls, line: str) -> TopicConfig:
        """Read what ``encode_line`` wrote, of either version."""
        parts = line.split(" ", 5)
        if len(parts) < 5:
            raise RemoteProtocolError(f"topic line of {len(parts)} parts, at least 5")
        return cls.of(
            {
                "topicName": parts[0],
                "readQueueNums": parts[1],
                "writeQueueNums": parts[2],
                "perm": parts[3],
                "topicFilterType": parts[4],
                "attributes": loads(parts[5]) if len(parts) > 5 and parts[5] else None,
            }
        )


class TopicConfigWrapper(Body):
    """All topics of a broker: ``topics.json``, and the answer of 4.9 to code 21."""

    data_version: DataVersion = msgspec.field(default_factory=DataVersion)
    topic_config_table: dict[str, TopicConfig] = {}


class TopicConfigAndMappingWrapper(TopicConfigWrapper):
    """All topics with the queue mappings of static topics: the answer of 5.x to code 21."""

    SINCE_5: ClassVar[frozenset[str]] = frozenset(
        {"mapping_data_version", "topic_queue_mapping_detail_map", "topic_queue_mapping_info_map"}
    )

    mapping_data_version: DataVersion = msgspec.field(default_factory=DataVersion)
    topic_queue_mapping_detail_map: dict[str, Any] = {}
    topic_queue_mapping_info_map: dict[str, Any] = {}


class TopicConfigList(Body):
    """Code 18's request: several topics at once."""

    topic_config_list: list[TopicConfig] = []


class LogicQueueMappingItem(Body):
    """One stretch of a logical queue of a static topic."""

    bname: str = ""
    end_offset: Long = -1
    gen: Int = 0
    logic_offset: Long = 0
    queue_id: Int = 0
    start_offset: Long = 0
    time_of_end: Long = -1
    time_of_start: Long = -1


class TopicQueueMappingDetail(Body):
    """Code 513's request: how the logical queues of a static topic lie on brokers."""

    bname: str | None = None
    curr_id_map: dict[Int, Int] | None = None
    dirty: bool = False
    epoch: Long = 0
    hosted_queues: dict[Int, list[LogicQueueMappingItem]] | None = None
    scope: str | None = None
    topic: str | None = None
    total_queues: Int = 0


class TopicList(Body):
    """Names of topics; some answers add the address of a broker."""

    broker_addr: str | None = None
    topic_list: list[str] = []


class RegisterBrokerBody(Body):
    """What a broker tells a name server about itself."""

    filter_server_list: list[str] = []
    topic_config_serialize_wrapper: TopicConfigAndMappingWrapper = msgspec.field(
        default_factory=TopicConfigAndMappingWrapper
    )

    @property
    def topics(self) -> dict[str, TopicConfig]:
        """The topics by name."""
        return self.topic_config_serialize_wrapper.topic_config_table

    @property
    def data_version(self) -> DataVersion:
        """The version of the topics."""
        return self.topic_config_serialize_wrapper.data_version

    def encode_compressed(self, *, legacy: bool = False, attributes: bool = True) -> bytes:
        """The same in the compressed form; without ``attributes`` 4.9 reads that of 5.x too."""
        wrapper = self.topic_config_serialize_wrapper
        is_short = legacy or not attributes
        parts = [_sized(wrapper.data_version.encode(legacy=legacy)), _INT.pack(len(self.topics))]
        parts += [_sized(t.encode_line(legacy=is_short).encode()) for t in self.topics.values()]
        parts.append(_sized(dumps(self.filter_server_list)))
        if not legacy:
            mappings = wrapper.topic_queue_mapping_info_map
            parts.append(_INT.pack(len(mappings)))
            parts += [_sized(dumps(mapping)) for mapping in mappings.values()]
        return zlib.compress(b"".join(parts), 9)

    @classmethod
    def decode_compressed(cls, data: bytes | bytearray | memoryview) -> RegisterBrokerBody:
        """Read the compressed form; a missing last section is a 4.9 broker's."""
        cursor = _Cursor(_inflate(data))
        version = DataVersion.decode(cursor.sized())
        topics: dict[str, TopicConfig] = {}
        for _ in range(cursor.count()):
            topic = TopicConfig.decode_line(_text(cursor.sized()))
            topics[topic.topic_name] = topic
        filters = loads(cursor.sized())
        mappings: dict[str, Any] = {}
        if not cursor.is_at_end:
            for _ in range(cursor.count()):
                mapping = loads(cursor.sized())
                if not isinstance(mapping, dict):
                    raise RemoteProtocolError("a queue mapping is not an object")
                mappings[str(mapping.get("topic"))] = mapping
        return cls(
            filter_server_list=[str(item) for item in filters] if isinstance(filters, list) else [],
            topic_config_serialize_wrapper=TopicConfigAndMappingWrapper(
                data_version=version,
                topic_config_table=topics,
                topic_queue_mapping_info_map=mappings,
            ),
        )


def body_crc32(body: bytes | bytearray | memoryview) -> int:
    """The checksum a registration's header carries; 0 there means that nobody looks."""
    return zlib.crc32(body) & 0x7FFFFFFF


_INT = struct.Struct(">i")


def _sized(data: bytes) -> bytes:
    return _INT.pack(len(data)) + data


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _inflate(data: bytes | bytearray | memoryview) -> bytes:
    inflater = zlib.decompressobj()
    try:
        out = inflater.decompress(data, INFLATED_SIZE_MAX)
    except zlib.error as error:
        raise RemoteProtocolError(f"compressed registration: {error}") from error
    if inflater.unconsumed_tail:
        raise RemoteProtocolError(f"registration of more than {INFLATED_SIZE_MAX} bytes")
    if not inflater.eof:
        raise RemoteProtocolError("compressed registration is cut off")
    return out


class _Cursor:
    """Reads sized items and counts, and refuses what is not there."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def is_at_end(self) -> bool:
        return self._position == len(self._data)

    def count(self) -> int:
        value = self._int()
        if value < 0:
            raise RemoteProtocolError(f"registration: a count of {value}")
        return value

    def sized(self) -> bytes:
        size = self._int()
        start, end = self._position, self._position + size
        if size < 0 or end > len(self._data):
            raise RemoteProtocolError(
                f"registration: item of {size} bytes where {len(self._data) - start} are left"
            )
        self._position = end
        return self._data[start:end]

    def _int(self) -> int:
        if self._position + _INT.size > len(self._data):
            raise RemoteProtocolError("registration is cut off")
        (value,) = _INT.unpack_from(self._data, self._position)
        self._position += _INT.size
        return int(value)
