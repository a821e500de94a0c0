"""What can be set about the store: RocketMQ's keys (MessageStoreConfig), our names."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Final

from contrailmq.errors import ConfigError
from contrailmq.settings import key

MIB: Final = 1024 * 1024
INT_MAX: Final = 2**31 - 1  # sizes are Java's ints
RECORD_SIZE_EXTRA: Final = 64 * 1024  # a record may exceed maxMessageSize by this much
_DELAY_UNIT_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class FlushDiskType(enum.Enum):
    """Whether a send waits for the disk."""

    ASYNC = "ASYNC_FLUSH"
    SYNC = "SYNC_FLUSH"


class BrokerRole(enum.Enum):
    """Who copies from whom."""

    ASYNC_MASTER = "ASYNC_MASTER"
    SYNC_MASTER = "SYNC_MASTER"
    SLAVE = "SLAVE"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """How a broker keeps its messages."""

    root: str = key("storePathRootDir", "~/store")
    commit_log_path: str = key("storePathCommitLog", "")
    read_only_commit_log_paths: str = key("readOnlyCommitLogStorePaths", "")
    broker_role: BrokerRole = key("brokerRole", BrokerRole.ASYNC_MASTER)  # noqa: RUF009

    # Files
    segment_size: int = key(
        "mappedFileSizeCommitLog", 1024 * MIB, also=("mapedFileSizeCommitLog",), high=INT_MAX
    )
    queue_file_size: int = key(
        "mappedFileSizeConsumeQueue", 6_000_000, also=("mapedFileSizeConsumeQueue",), high=INT_MAX
    )
    queue_ext_enable: bool = key("enableConsumeQueueExt", False)
    queue_ext_file_size: int = key(
        "mappedFileSizeConsumeQueueExt",
        48 * MIB,
        also=("mapedFileSizeConsumeQueueExt",),
        high=INT_MAX,
    )
    queue_ext_bitmap_bits: int = key("bitMapLengthConsumeQueueExt", 64)
    index_enable: bool = key("messageIndexEnable", True)
    index_safe: bool = key("messageIndexSafe", False)
    index_slots: int = key("maxHashSlotNum", 5_000_000, high=INT_MAX)
    index_entries: int = key("maxIndexNum", 20_000_000, high=INT_MAX)
    warm_segments: bool = key("warmMapedFileEnable", False, also=("warmMappedFileEnable",))

    # Limits
    message_size_max: int = key("maxMessageSize", 4 * MIB, live=True, high=INT_MAX)
    long_topics: bool = key("autoMessageVersionOnTopicLen", True)
    delay_levels: str = key(
        "messageDelayLevel", "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    )

    # Flushing
    flush_disk_type: FlushDiskType = key("flushDiskType", FlushDiskType.ASYNC)  # noqa: RUF009
    flush_interval_ms: int = key("flushIntervalCommitLog", 500, live=True, low=1)
    flush_least_pages: int = key("flushCommitLogLeastPages", 4, live=True)
    flush_thorough_ms: int = key("flushCommitLogThoroughInterval", 10_000, live=True)
    queue_flush_interval_ms: int = key("flushIntervalConsumeQueue", 1000, live=True, low=1)
    queue_flush_least_pages: int = key("flushConsumeQueueLeastPages", 2, live=True)
    queue_flush_thorough_ms: int = key("flushConsumeQueueThoroughInterval", 60_000, live=True)
    sync_flush_timeout_ms: int = key("syncFlushTimeout", 5000, live=True, low=1)
    write_buffer_enable: bool = key("transientStorePoolEnable", False)
    write_buffer_count: int = key("transientStorePoolSize", 5, low=1)
    commit_interval_ms: int = key("commitIntervalCommitLog", 200, live=True, low=1)
    commit_least_pages: int = key("commitCommitLogLeastPages", 4, live=True)
    commit_thorough_ms: int = key("commitCommitLogThoroughInterval", 200, live=True)

    # Recovery
    check_crc_on_recover: bool = key("checkCRCOnRecover", True)

    # Reading
    transfer_bytes_in_memory: int = key(
        "maxTransferBytesOnMessageInMemory", 262_144, live=True, low=1
    )
    transfer_count_in_memory: int = key("maxTransferCountOnMessageInMemory", 32, live=True, low=1)
    transfer_bytes_on_disk: int = key("maxTransferBytesOnMessageInDisk", 65_536, live=True, low=1)
    transfer_count_on_disk: int = key("maxTransferCountOnMessageInDisk", 8, live=True, low=1)
    memory_ratio_percent: int = key("accessMessageInMemoryMaxRatio", 40, live=True, high=100)
    filter_scan_size: int = key("maxFilterMessageSize", 16_000, live=True)
    query_count_default: int = key("defaultQueryMaxNum", 32, live=True, low=1)
    query_count_max: int = key("maxMsgsNumBatch", 64, live=True, low=1)
    offset_check_in_slave: bool = key("offsetCheckInSlave", False, live=True)

    # Retention
    retention_hours: int = key("fileReservedTime", 72, live=True)
    delete_hours: str = key("deleteWhen", "04", live=True)
    clean_interval_ms: int = key("cleanResourceInterval", 10_000, low=1)
    delete_log_pause_ms: int = key("deleteCommitLogFilesInterval", 100, live=True)
    delete_queue_pause_ms: int = key("deleteConsumeQueueFilesInterval", 100, live=True)
    delete_batch_max: int = key("deleteFileBatchMax", 10, live=True, low=1)
    destroy_forced_ms: int = key("destroyMapedFileIntervalForcibly", 120_000, live=True)
    redelete_hung_ms: int = key("redeleteHangedFileInterval", 120_000, live=True)
    clean_forcibly: bool = key("cleanFileForciblyEnable", True, live=True)
    disk_used_percent: int = key("diskMaxUsedSpaceRatio", 75, live=True, high=100)
    disk_forcible_percent: int = key("diskSpaceCleanForciblyRatio", 85, live=True, high=100)
    disk_warning_percent: int = key("diskSpaceWarningLevelRatio", 90, live=True, high=100)

    def __post_init__(self) -> None:
        for name, value, least in (
            ("mappedFileSizeCommitLog", self.segment_size, 4096),
            ("mappedFileSizeConsumeQueue", self.queue_file_size, 20),
            ("mappedFileSizeConsumeQueueExt", self.queue_ext_file_size, 64),
            ("maxHashSlotNum", self.index_slots, 1),
            ("maxIndexNum", self.index_entries, 2),
            ("maxMessageSize", self.message_size_max, 1),
        ):
            if value < least:
                raise ConfigError(f"{name} = {value}: at least {least}")
        if not self.delay_ms_by_level():
            raise ConfigError("messageDelayLevel = '': expected levels such as 1s 5s 10s")
        self.delete_at_hours()

    def delete_at_hours(self) -> frozenset[int]:
        """The hours of ``deleteWhen``: ``04``, or several with ``;`` between them."""
        parts = [part.strip() for part in self.delete_hours.split(";") if part.strip()]
        if not parts or not all(re.fullmatch("[01]?[0-9]|2[0-3]", part) for part in parts):
            raise ConfigError(
                f"deleteWhen = {self.delete_hours!r}: expected hours such as 04 or 04;16"
            )
        return frozenset(map(int, parts))

    def delay_ms_by_level(self) -> dict[int, int]:
        """Delay level, from 1, to milliseconds; a text that does not parse is an error."""
        table = {}
        for level, text in enumerate(self.delay_levels.split(), start=1):
            match = re.fullmatch(r"([0-9]+)([smhd])", text.lower())
            if match is None:
                raise ConfigError(
                    f"messageDelayLevel = {self.delay_levels!r}: {text}: expected a number and one "
                    "of s, m, h, d"
                )
            table[level] = int(match[1]) * _DELAY_UNIT_MS[match[2]]
        return table

    @property
    def record_size_max(self) -> int:
        """The largest record; never so large that a fresh segment could not hold it."""
        return min(self.message_size_max + RECORD_SIZE_EXTRA, self.segment_size - 8)

    @property
    def has_write_buffer(self) -> bool:
        """Whether appends go through the write buffer (TransientStorePool's own conditions)."""
        return (
            self.write_buffer_enable
            and self.flush_disk_type is FlushDiskType.ASYNC
            and self.broker_role is not BrokerRole.SLAVE
        )
