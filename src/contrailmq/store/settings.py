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
TIMER_SLOTS_MAX: Final = 604_800 - 60  # half the wheel, less a minute
_DELAY_MS_MAX: Final = 3650 * 86_400_000
_DELAY_UNIT_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
TRANSFER_SIZE_MAX: Final = 8 * MIB  # an answer has to fit into a frame
TRANSFER_COUNT_MAX: Final = 65_536


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

    root: str = key(
        "storePathRootDir",
        "~/store",
        doc="The store directory.",
    )
    commit_log_path: str = key(
        "storePathCommitLog",
        "",
        doc=(
            "The folder of the commit log. Several folders, separated by `,`, take turns. "
            "Empty: `commitlog` in the store directory."
        ),
    )
    read_only_commit_log_paths: str = key(
        "readOnlyCommitLogStorePaths",
        "",
        doc="Further commit-log folders that are read and never written.",
    )
    broker_role: BrokerRole = key(
        "brokerRole",
        BrokerRole.ASYNC_MASTER,
        doc=(
            "`ASYNC_MASTER`, `SYNC_MASTER` (a send waits for replicas, `inSyncReplicas`) or "
            "`SLAVE`."
        ),
    )

    # Files
    segment_size: int = key(
        "mappedFileSizeCommitLog",
        1024 * MIB,
        also=("mapedFileSizeCommitLog",),
        high=INT_MAX,
        doc=(
            "Size of a commit-log segment in bytes. It must not change during the life of a store."
        ),
    )
    queue_file_size: int = key(
        "mappedFileSizeConsumeQueue",
        6_000_000,
        also=("mapedFileSizeConsumeQueue",),
        high=INT_MAX,
        doc="Size of a consume-queue file in bytes, rounded up to a multiple of 20 (one unit).",
    )
    queue_ext_enable: bool = key(
        "enableConsumeQueueExt",
        False,
        doc="Whether queues have extension files, in which bit maps of filters are kept.",
    )
    queue_maps_max: int = key(
        "queueMappingsMax",
        16_384,
        low=16,
        doc=(
            "Most consume-queue files that are mapped at a time. Other files are mapped when they "
            "are used. The broker takes at most half of `vm.max_map_count`."
        ),
    )
    queue_ext_file_size: int = key(
        "mappedFileSizeConsumeQueueExt",
        48 * MIB,
        also=("mapedFileSizeConsumeQueueExt",),
        high=INT_MAX,
        doc="Size of an extension file in bytes.",
    )
    queue_ext_bitmap_bits: int = key(
        "bitMapLengthConsumeQueueExt",
        64,
        doc="Read and shown; bit maps have the length their filters need.",
    )
    batch_queue_file_size: int = key(
        "mapperFileSizeBatchConsumeQueue",
        13_800_000,
        high=INT_MAX,
        doc=(
            "Size of a file of a batch queue (topics with `queue.type=BatchCQ`) in bytes, rounded "
            "up to a multiple of 46 (one unit)."
        ),
    )
    lmq_enable: bool = key(
        "enableLmq",
        False,
        doc=(
            "Whether topics and groups named `%LMQ%…` exist without being created: light queues, "
            "one queue each. Their groups' offsets are kept in `lmqConsumerOffset.json`."
        ),
    )
    multi_dispatch_enable: bool = key(
        "enableMultiDispatch",
        False,
        doc=(
            "With `enableLmq`: a message whose property INNER_MULTI_DISPATCH names light queues "
            "(`%LMQ%a,%LMQ%b`) is in each of them, too."
        ),
    )
    index_enable: bool = key(
        "messageIndexEnable",
        True,
        doc="Whether messages can be looked up by key.",
    )
    index_safe: bool = key(
        "messageIndexSafe",
        False,
        doc="Whether recovery starts no later than the last flush of the index.",
    )
    index_slots: int = key(
        "maxHashSlotNum",
        5_000_000,
        high=INT_MAX,
        doc="Number of hash slots per index file.",
    )
    index_entries: int = key(
        "maxIndexNum",
        20_000_000,
        high=INT_MAX,
        doc="Number of entries per index file.",
    )
    warm_segments: bool = key(
        "warmMapedFileEnable",
        False,
        also=("warmMappedFileEnable",),
        doc="Whether all pages of a new segment are allocated when the segment is created.",
    )

    # Limits
    message_size_max: int = key(
        "maxMessageSize",
        4 * MIB,
        live=True,
        high=INT_MAX,
        doc="The largest body in bytes. A record may be 64 KiB larger.",
    )
    long_topics: bool = key(
        "autoMessageVersionOnTopicLen",
        True,
        doc=(
            "Whether topic names of more than 127 bytes (up to 32767) are stored, in records of "
            "the second version."
        ),
    )
    delay_levels: str = key(
        "messageDelayLevel",
        "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
        doc="The delays of levels 1, 2, 3 and so on.",
    )

    # Timers
    timer_enable: bool = key(
        "timerWheelEnable",
        True,
        doc=(
            "Whether messages may have a time of their own (`TIMER_DELAY_SEC`, `TIMER_DELAY_MS`, "
            "`TIMER_DELIVER_MS`). Their files are created with the first such message."
        ),
    )
    timer_precision_ms: int = key(
        "timerPrecisionMs",
        1000,
        low=100,
        high=1000,
        doc=(
            "How long a slot of the timer wheel is: 100, 200, 500 or 1000 ms (others are rounded "
            "down). Messages are delivered in the millisecond they are due all the same. "
            "Never change it while messages wait."
        ),
    )
    timer_max_delay_s: int = key(
        "timerMaxDelaySec",
        259_200,
        live=True,
        high=INT_MAX,
        doc=(
            "The longest delay of a timer message in seconds. Keep `fileReservedTime` longer: "
            "the message waits in the log."
        ),
    )
    timer_window_slots: int = key(
        "timerRollWindowSlot",
        172_800,
        high=INT_MAX,
        doc=(
            "A message that is due more than so many slots ahead is stored again on the way. "
            "Below 2 or above 604740: 604740."
        ),
    )
    timer_slot_max: int = key(
        "timerCongestNumEachSlot",
        INT_MAX,
        live=True,
        low=1,
        high=INT_MAX,
        doc=(
            "From so many messages per slot on, timer messages are refused more and more often; "
            "at twice the number all of them are."
        ),
    )
    timer_flush_ms: int = key(
        "timerFlushIntervalMs",
        1000,
        low=10,
        high=INT_MAX,
        doc="How often the files of the timers are flushed, in milliseconds.",
    )
    timer_file_size: int = key(
        "mappedFileSizeTimerLog",
        100 * MIB,
        high=INT_MAX,
        doc="The size of a timer-log file in bytes.",
    )
    timer_stop_enqueue: bool = key(
        "timerStopEnqueue",
        False,
        live=True,
        doc="Whether new timer messages stay out of the wheel for now. They are kept.",
    )
    timer_stop_dequeue: bool = key(
        "timerStopDequeue",
        False,
        live=True,
        doc="Whether no timer message is delivered for now. They are kept.",
    )

    # Flushing
    flush_disk_type: FlushDiskType = key(
        "flushDiskType",
        FlushDiskType.ASYNC,
        doc=(
            "`ASYNC_FLUSH`: a send is answered when the message is in memory. `SYNC_FLUSH`: "
            "when it is on disk, and consumers see it only then."
        ),
    )
    flush_interval_ms: int = key(
        "flushIntervalCommitLog",
        500,
        live=True,
        low=1,
        doc="Pause between two flushes of the log under asynchronous flush, in ms.",
    )
    flush_least_pages: int = key(
        "flushCommitLogLeastPages",
        4,
        live=True,
        doc="The log is flushed when at least this many pages of 4 KiB are dirty.",
    )
    flush_thorough_ms: int = key(
        "flushCommitLogThoroughInterval",
        10_000,
        live=True,
        doc="After this time the log is flushed even if fewer pages are dirty, in ms.",
    )
    queue_flush_interval_ms: int = key(
        "flushIntervalConsumeQueue",
        1000,
        live=True,
        low=1,
        doc="Pause between two flushes of the queues, in ms.",
    )
    queue_flush_least_pages: int = key(
        "flushConsumeQueueLeastPages",
        2,
        live=True,
        doc="A queue is flushed when at least this many pages are dirty.",
    )
    queue_flush_thorough_ms: int = key(
        "flushConsumeQueueThoroughInterval",
        60_000,
        live=True,
        doc="After this time all queues, the index and the checkpoint are flushed, in ms.",
    )
    sync_flush_timeout_ms: int = key(
        "syncFlushTimeout",
        5000,
        live=True,
        low=1,
        doc=(
            "How long a send waits for the disk under synchronous flush, in ms. After that it "
            "is answered FLUSH_DISK_TIMEOUT; the message is stored all the same."
        ),
    )
    write_buffer_enable: bool = key(
        "transientStorePoolEnable",
        False,
        doc=(
            "Whether records are collected in a memory buffer before they are written to the "
            "file. Only with asynchronous flush. As in Java, what was acknowledged in the last "
            "`commitIntervalCommitLog` (200 ms) then dies with the process; ending a transaction "
            "or sending a message back within that time is refused."
        ),
    )
    write_buffer_count: int = key(
        "transientStorePoolSize",
        5,
        low=1,
        doc="How many buffers of one segment's size may be in use.",
    )
    commit_interval_ms: int = key(
        "commitIntervalCommitLog",
        200,
        live=True,
        low=1,
        doc="Pause between two writes of the buffer to the file, in ms.",
    )
    commit_least_pages: int = key(
        "commitCommitLogLeastPages",
        4,
        live=True,
        doc="The buffer is written when it holds at least this many pages.",
    )
    commit_thorough_ms: int = key(
        "commitCommitLogThoroughInterval",
        200,
        live=True,
        doc="After this time the buffer is written even if it holds fewer pages, in ms.",
    )

    # Recovery
    check_crc_on_recover: bool = key(
        "checkCRCOnRecover",
        True,
        doc="Whether recovery checks the checksum of every body it reads.",
    )

    # Reading
    transfer_bytes_in_memory: int = key(
        "maxTransferBytesOnMessageInMemory",
        262_144,
        live=True,
        low=1,
        high=TRANSFER_SIZE_MAX,
        doc="Most bytes in the answer to one pull.",
    )
    transfer_count_in_memory: int = key(
        "maxTransferCountOnMessageInMemory",
        32,
        live=True,
        low=1,
        high=TRANSFER_COUNT_MAX,
        doc="Most messages in the answer to one pull.",
    )
    transfer_bytes_on_disk: int = key(
        "maxTransferBytesOnMessageInDisk",
        65_536,
        live=True,
        low=1,
        high=TRANSFER_SIZE_MAX,
        doc="Most bytes in the answer to one pull of messages that have probably left memory.",
    )
    transfer_count_on_disk: int = key(
        "maxTransferCountOnMessageInDisk",
        8,
        live=True,
        low=1,
        high=TRANSFER_COUNT_MAX,
        doc=("Most messages in the answer to one pull of messages that have probably left memory."),
    )
    memory_ratio_percent: int = key(
        "accessMessageInMemoryMaxRatio",
        40,
        live=True,
        high=100,
        doc=(
            "A message has probably left memory if it is further from the end of the log than "
            "this percentage of the machine's memory."
        ),
    )
    filter_scan_size: int = key(
        "maxFilterMessageSize",
        16_000,
        live=True,
        doc=(
            "How many bytes of queue units one filtered pull examines at least; 20 bytes per "
            "message."
        ),
    )
    query_count_default: int = key(
        "defaultQueryMaxNum",
        32,
        live=True,
        low=1,
        doc="How many messages a query by key returns if the caller names no number.",
    )
    query_count_max: int = key(
        "maxMsgsNumBatch",
        64,
        live=True,
        low=1,
        doc="Most messages in the answer to a query by key.",
    )
    offset_check_in_slave: bool = key(
        "offsetCheckInSlave",
        False,
        live=True,
        doc="Whether a replica corrects offsets of consumers.",
    )

    # Retention
    retention_hours: int = key(
        "fileReservedTime",
        72,
        live=True,
        doc="Hours a segment is kept after its last write.",
    )
    delete_hours: str = key(
        "deleteWhen",
        "04",
        live=True,
        doc="The local hours at which old segments are deleted, for example `04` or `04;16`.",
    )
    clean_interval_ms: int = key(
        "cleanResourceInterval",
        10_000,
        low=1,
        doc="Pause between two rounds of retention, in ms.",
    )
    delete_log_pause_ms: int = key(
        "deleteCommitLogFilesInterval",
        100,
        live=True,
        doc="Pause between the deletion of two segments, in ms.",
    )
    delete_queue_pause_ms: int = key(
        "deleteConsumeQueueFilesInterval",
        100,
        live=True,
        doc="Pause between the deletion of two queue or index files, in ms.",
    )
    delete_batch_max: int = key(
        "deleteFileBatchMax",
        10,
        live=True,
        low=1,
        doc="Most segments deleted in one round.",
    )
    destroy_forced_ms: int = key(
        "destroyMapedFileIntervalForcibly",
        120_000,
        live=True,
        doc="Read and shown; the space of a deleted file is free when its last reader is done.",
    )
    redelete_hung_ms: int = key(
        "redeleteHangedFileInterval",
        120_000,
        live=True,
        doc=(
            "Pause before the deletion of a file that could not be deleted is tried again, in ms."
        ),
    )
    clean_forcibly: bool = key(
        "cleanFileForciblyEnable",
        True,
        live=True,
        doc=(
            "Whether segments are deleted regardless of their age when the disk is fuller than "
            "`diskSpaceCleanForciblyRatio`."
        ),
    )
    disk_used_percent: int = key(
        "diskMaxUsedSpaceRatio",
        75,
        live=True,
        high=100,
        doc=(
            "If the disk is fuller than this percentage (10 to 95), old segments are deleted at "
            "any hour."
        ),
    )
    disk_forcible_percent: int = key(
        "diskSpaceCleanForciblyRatio",
        85,
        live=True,
        high=100,
        doc=(
            "If the disk is fuller than this percentage, segments are deleted regardless of "
            "their age."
        ),
    )
    disk_warning_percent: int = key(
        "diskSpaceWarningLevelRatio",
        90,
        live=True,
        high=100,
        doc="If the disk is fuller than this percentage, messages are refused.",
    )

    def __post_init__(self) -> None:
        for name, value, least in (
            ("mappedFileSizeCommitLog", self.segment_size, 4096),
            ("mappedFileSizeConsumeQueue", self.queue_file_size, 20),
            ("mapperFileSizeBatchConsumeQueue", self.batch_queue_file_size, 46),
            ("mappedFileSizeConsumeQueueExt", self.queue_ext_file_size, 64),
            ("maxHashSlotNum", self.index_slots, 1),
            ("maxIndexNum", self.index_entries, 2),
            ("maxMessageSize", self.message_size_max, 1),
            ("mappedFileSizeTimerLog", self.timer_file_size, 68),
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
            if table[level] > _DELAY_MS_MAX:
                raise ConfigError(
                    f"messageDelayLevel = {self.delay_levels!r}: {text}: at most 3650d"
                )
        return table

    @property
    def has_lights(self) -> bool:
        """Whether messages are in light queues, too."""
        return self.lmq_enable and self.multi_dispatch_enable

    @property
    def timer_slot_ms(self) -> int:
        """The length of a slot of the timer wheel (TimerMessageStore's own rounding)."""
        return max(ms for ms in (100, 200, 500, 1000) if ms <= self.timer_precision_ms)

    @property
    def timer_window_ms(self) -> int:
        """How far ahead a message may be in the wheel; others are stored again on the way."""
        slots = self.timer_window_slots
        return self.timer_slot_ms * (slots if 2 <= slots <= TIMER_SLOTS_MAX else TIMER_SLOTS_MAX)

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
