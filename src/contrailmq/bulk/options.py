"""What a user says in ``.option(...)``, read once and checked: names, types, what excludes what.

Spark hands options over as text, without regard to case.  Unknown names are an error: a misspelt
``maxOffsetPerTrigger`` must not be silently without effect.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from contrailmq.bulk.option_values import (
    assignment,
    check_regular,
    check_sql,
    compression,
    directories,
    names_of,
    offsets_of_json,
    time_ms,
)
from contrailmq.client.access import VERIFY_WORDS, Credentials, Tls, name_server_list
from contrailmq.errors import ConfigError
from contrailmq.protocol.compression import Compression
from contrailmq.protocol.names import TOOLS_GROUP
from contrailmq.protocol.queue import MessageQueue

T = TypeVar("T")

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
COMMITTED: Final = "committed"
QUEUES_MAX: Final = 1024  # of a topic that a write makes, on each broker
BATCH_SIZE_MAX: Final = 4 * 1024 * 1024  # maxMessageSize of brokers


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """Where to begin or end: one of a word, a time, or offsets of some queues."""

    word: str | None = None
    time_ms: int | None = None
    offsets: tuple[tuple[MessageQueue, int], ...] = ()

    def __str__(self) -> str:
        if self.word is not None:
            return self.word
        return f"time {self.time_ms}" if self.time_ms is not None else "offsets"


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach a cluster."""

    name_servers: tuple[str, ...]
    credentials: Credentials | None = None
    tls: Tls | None = None
    timeout_s: float = 10.0
    patience_s: float = 60.0


class SourceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of reading topics."""

    access: Access
    topics: tuple[str, ...] = ()
    topics_pattern: str | None = None
    assign: tuple[tuple[str, str | None, tuple[int, ...]], ...] = ()
    starting: Position | None = None
    ending: Position | None = None
    group: str | None = None
    tags: str | None = None
    sql: str | None = None
    max_offsets_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    min_partitions: int | None = None
    cores: int | None = None
    max_records_per_partition: int | None = None
    fail_on_data_loss: bool = True
    on_bad_message: str = "fail"
    push_down: bool = False
    own_properties: bool = False

    @property
    def pull_group(self) -> str:
        """The group that pulls are made in the name of."""
        return self.group or TOOLS_GROUP


class StoreOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of reading store directories."""

    paths: tuple[tuple[str, str], ...]  # directory, and the name its broker has in the rows
    topics: tuple[str, ...] = ()
    starting: Position | None = None
    ending: Position | None = None
    tags: str | None = None
    fail_on_damage: bool = True
    check_crc: bool = False
    max_offsets_per_trigger: int | None = None
    min_partitions: int | None = None
    cores: int | None = None
    max_records_per_partition: int | None = None
    fail_on_data_loss: bool = True
    on_bad_message: str = "fail"
    push_down: bool = False
    own_properties: bool = False

    @property
    def on_bad_body(self) -> str:
        """What becomes of a body that cannot be opened; ``onDamage=report`` reports it, too."""
        if self.on_bad_message == "fail" and not self.fail_on_damage:
            return "report"
        return self.on_bad_message


class SinkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of writing to topics."""

    access: Access
    topic: str | None = None
    group: str = "spark_sink"
    batch_size: int = 128 * 1024
    batch_count: int = 1000
    in_flight: int = 4
    compress_over: int = 4096
    compression: Compression = Compression.ZLIB
    once: bool = False
    query_id: str | None = None
    create_topic: int | None = None  # queues on each broker


_ACCESS: Final = (
    "nameServers", "accessKey", "secretKey", "securityToken", "timeoutMs", "patienceMs",
    "tls", "tlsCa", "tlsCert", "tlsKey", "tlsVerify",
)  # fmt: skip
_RANGE: Final = (
    "startingOffsets", "startingTimestamp", "endingOffsets", "endingTimestamp", "tags",
    "maxOffsetsPerTrigger", "minPartitions", "cores", "maxRecordsPerPartition", "failOnDataLoss",
    "properties", "pushDown", "onBadMessage",
)  # fmt: skip
SOURCE_NAMES: Final = (
    *_ACCESS,
    *_RANGE,
    "topics",
    "topicsPattern",
    "assign",
    "group",
    "sql",
    "maxBytesPerTrigger",
)
STORE_NAMES: Final = (*_RANGE, "path", "paths", "topics", "broker", "onDamage", "checkCrc")
SINK_NAMES: Final = (
    *_ACCESS,
    "topic",
    "group",
    "batchSize",
    "batchCount",
    "inFlight",
    "compressOver",
    "compression",
    "delivery",
    "queryId",
    "createTopic",
    "ordered",
)
_SPARKS_OWN: Final = {"checkpointlocation", "queryname", "header"}  # Spark adds these itself


def source_options(given: Mapping[str, str]) -> SourceOptions:
    """The options of ``format("rocketmq")`` for reading."""
    options = _Given(given, SOURCE_NAMES)
    topics = options.names("topics")
    pattern = options.text("topicsPattern")
    assign = options.parsed("assign", assignment)
    if sum(map(bool, (topics, pattern, assign))) != 1:
        raise ConfigError("give one of the options topics, topicsPattern and assign")
    if pattern is not None:
        check_regular(pattern)
    found = SourceOptions(
        access=_access(options),
        topics=topics,
        topics_pattern=pattern,
        assign=assign or (),
        starting=_position(options, "starting"),
        ending=_position(options, "ending"),
        group=options.text("group"),
        tags=options.text("tags"),
        sql=options.text("sql"),
        max_offsets_per_trigger=options.count("maxOffsetsPerTrigger"),
        max_bytes_per_trigger=options.count("maxBytesPerTrigger"),
        min_partitions=options.count("minPartitions"),
        cores=options.count("cores"),
        max_records_per_partition=options.count("maxRecordsPerPartition"),
        fail_on_data_loss=options.flag("failOnDataLoss", True),
        on_bad_message=options.choice("onBadMessage", ("fail", "report", "skip")),
        push_down=options.flag("pushDown", False),
        own_properties=options.choice("properties", ("all", "own")) == "own",
    )
    if found.tags is not None and found.sql is not None:
        raise ConfigError("give one of the options tags and sql, not both")
    for name, place in (("startingOffsets", found.starting), ("endingOffsets", found.ending)):
        if place is not None and place.word == COMMITTED and found.group is None:
            raise ConfigError(f"{name}=committed needs the option group")
    if found.sql is not None:
        check_sql(found.sql)
    return found


def store_options(given: Mapping[str, str]) -> StoreOptions:
    """The options of ``format("rocketmq-store")``."""
    options = _Given(given, STORE_NAMES)
    text = options.text("path") or options.text("paths")
    if not text:
        raise ConfigError("option path is missing: a store directory, or several with commas")
    paths = directories(text)
    starting, ending = _position(options, "starting"), _position(options, "ending")
    for place in (starting, ending):
        if place is not None and place.word == COMMITTED:
            raise ConfigError("a store directory is read by earliest, latest, time or offsets")
    names = options.names("broker") or names_of(paths)
    if len(names) != len(paths):
        raise ConfigError(
            f"broker={options.text('broker')!r}: {len(names)} different names for"
            f" {len(paths)} directories, expected one for each"
        )
    return StoreOptions(
        paths=tuple(zip(paths, names, strict=True)),
        topics=options.names("topics"),
        starting=starting,
        ending=ending,
        tags=options.text("tags"),
        fail_on_damage=options.choice("onDamage", ("fail", "report")) == "fail",
        check_crc=options.flag("checkCrc", False),
        max_offsets_per_trigger=options.count("maxOffsetsPerTrigger"),
        min_partitions=options.count("minPartitions"),
        cores=options.count("cores"),
        max_records_per_partition=options.count("maxRecordsPerPartition"),
        fail_on_data_loss=options.flag("failOnDataLoss", True),
        on_bad_message=options.choice("onBadMessage", ("fail", "report", "skip")),
        push_down=options.flag("pushDown", False),
        own_properties=options.choice("properties", ("all", "own")) == "own",
    )


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    """The options of ``format("rocketmq")`` for writing."""
    options = _Given(given, SINK_NAMES)
    delivery = options.text("delivery") or "at-least-once"
    if delivery not in ("at-least-once", "effectively-once"):
        raise ConfigError(f"delivery={delivery!r}: expected at-least-once or effectively-once")
    over = options.text("compressOver")
    if over is not None and not over.isdecimal():
        raise ConfigError(f"compressOver={over!r}: expected a number of bytes, 0 for never")
    return SinkOptions(
        access=_access(options),
        topic=options.text("topic"),
        group=options.text("group") or "spark_sink",
        batch_size=options.count("batchSize", at_most=BATCH_SIZE_MAX) or 128 * 1024,
        batch_count=options.count("batchCount") or 1000,
        in_flight=_in_flight(options),
        compress_over=4096 if over is None else int(over),
        compression=options.parsed("compression", compression) or Compression.ZLIB,
        once=delivery == "effectively-once",
        query_id=options.text("queryId"),
        create_topic=options.count("createTopic", at_most=QUEUES_MAX),
    )


def _in_flight(options: _Given) -> int:
    """Batches of a queue under way; a broker with several threads may store them in any order."""
    given = options.count("inFlight")
    if not options.flag("ordered", False):
        return given or 4
    if given not in (None, 1):
        raise ConfigError(f"inFlight={given} and ordered=true exclude each other; leave one out")
    return 1


def check_endless(ending: Position | None) -> None:
    """Raise when a stream is given an end."""
    if ending is not None:
        raise ConfigError(
            "endingOffsets and endingTimestamp are for batch reads: a stream has no end; with"
            " trigger(availableNow=True) it reads what is there and stops"
        )


class _Given:
    """Options as Spark gives them, by name without regard to case."""

    def __init__(self, given: Mapping[str, str], known: Collection[str]) -> None:
        self._values = {name.lower(): value for name, value in given.items()}
        right = {name.lower(): name for name in known}
        unknown = sorted(set(self._values) - set(right) - _SPARKS_OWN)
        if unknown:
            raise ConfigError(
                f"unknown option {', '.join(unknown)}; there are {', '.join(sorted(known))}"
            )

    def text(self, name: str) -> str | None:
        value = self._values.get(name.lower())
        return value.strip() if value is not None and value.strip() else None

    def names(self, name: str) -> tuple[str, ...]:
        text = self.text(name) or ""
        return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))

    def count(self, name: str, *, at_most: int | None = None) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        if not text.isdecimal() or int(text) == 0:
            raise ConfigError(f"{name}={text!r}: expected a number above 0")
        if at_most is not None and int(text) > at_most:
            raise ConfigError(f"{name}={text!r}: expected at most {at_most}")
        return int(text)

    def flag(self, name: str, default: bool) -> bool:
        text = (self.text(name) or str(default)).lower()
        if text not in ("true", "false"):
            raise ConfigError(f"{name}={text!r}: expected true or false")
        return text == "true"

    def choice(self, name: str, words: Sequence[str]) -> str:
        text = self.text(name) or words[0]
        if text not in words:
            raise ConfigError(f"{name}={text!r}: expected {' or '.join(words)}")
        return text

    def parsed(self, name: str, parse: Callable[[str], T]) -> T | None:
        text = self.text(name)
        return None if text is None else parse(text)


def _access(options: _Given) -> Access:
    name_servers = name_server_list(options.text("nameServers"))
    if not name_servers:
        raise ConfigError("option nameServers is missing, for example 10.0.0.5:9876")
    access_key, secret_key = options.text("accessKey"), options.text("secretKey")
    if (access_key is None) != (secret_key is None):
        raise ConfigError("accessKey and secretKey belong together")
    credentials = None
    if access_key is not None and secret_key is not None:
        credentials = Credentials(
            access_key=access_key,
            secret_key=secret_key,
            security_token=options.text("securityToken"),
        )
    return Access(
        name_servers=tuple(name_servers),
        credentials=credentials,
        tls=_tls(options),
        timeout_s=(options.count("timeoutMs") or 10_000) / 1000,
        patience_s=(options.count("patienceMs") or 60_000) / 1000,
    )


def _tls(options: _Given) -> Tls | None:
    """How connections are protected; any of the options asks for it."""
    names = ("tlsCa", "tlsCert", "tlsKey", "tlsVerify")
    if not options.flag("tls", any(options.text(name) is not None for name in names)):
        return None
    return Tls(
        ca=options.text("tlsCa"),
        cert=options.text("tlsCert"),
        key=options.text("tlsKey"),
        verify=options.choice("tlsVerify", VERIFY_WORDS),
    )


def _position(options: _Given, which: str) -> Position | None:
    words, moment = options.text(f"{which}Offsets"), options.text(f"{which}Timestamp")
    if words is not None and moment is not None:
        raise ConfigError(f"give one of {which}Offsets and {which}Timestamp, not both")
    if moment is not None:
        return Position(time_ms=time_ms(moment))
    if words is None:
        return None
    if words.startswith("{"):
        return Position(offsets=tuple(offsets_of_json(words)))
    if words.lower() not in (EARLIEST, LATEST, COMMITTED):
        raise ConfigError(
            f"{which}Offsets={words!r}: expected earliest, latest, committed or JSON"
            ' such as {"orders": {"broker-a": {"0": 17}}}'
        )
    return Position(word=words.lower())
