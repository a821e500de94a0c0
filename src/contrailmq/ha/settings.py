"""What can be set about replication: RocketMQ's keys (MessageStoreConfig, BrokerConfig)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from contrailmq.errors import ConfigError
from contrailmq.protocol.hosts import split_address
from contrailmq.settings import key

MIB: Final = 1024 * 1024
FRAME_SIZE_MAX: Final = 4 * MIB - 64  # a Java replica reads into 4 MiB, header included


@dataclass(frozen=True, slots=True, kw_only=True)
class HaSettings:
    """How a broker and its replicas keep together."""

    # Where: 0 is the port behind listenPort, as in the original.
    listen_port: int = key(
        "haListenPort",
        0,
        high=65535,
        doc="The port replicas connect to. 0: the port behind `listenPort`.",
    )
    primary_address: str = key(
        "haMasterAddress",
        "",
        doc="The replication address of the primary. Empty: the name server tells it.",
    )
    allowed: str = key(
        "haAllowed",
        "",
        doc=(
            "The addresses replicas may come from, as in `whiteRemoteAddress`, with commas. Empty: "
            "any, and with `aclEnable` those of the replicas the name servers know. One that shows "
            "a checked certificate may come from anywhere."
        ),
    )
    has_tls: bool = key(
        "haTls",
        False,
        doc=(
            "Whether replication speaks TLS: the port as `tls.server.mode` says, a replica with "
            "the `tls.client` keys."
        ),
    )

    # The connection
    heartbeat_ms: int = key(
        "haSendHeartbeatInterval",
        5000,
        low=100,
        doc="How long a replication connection is quiet before a heartbeat.",
    )
    silence_ms: int = key(
        "haHousekeepingInterval",
        20_000,
        low=100,
        doc="How long a replication connection may be silent before it is closed.",
    )
    frame_size: int = key(
        "haTransferBatchSize",
        32 * 1024,
        low=1,
        high=FRAME_SIZE_MAX,
        doc="The largest piece of log in one frame to a replica.",
    )
    has_flow_control: bool = key(
        "haFlowControlEnable",
        False,
        doc="Whether `maxHaTransferByteInSecond` bounds what a replica is sent.",
    )
    bytes_a_second: int = key(
        "maxHaTransferByteInSecond",
        100 * MIB,
        low=1,
        doc="The most bytes one replica is sent in a second.",
    )

    # Whom a send waits for. Ours: 0 replicas is 4.9's rule, SYNC_MASTER waits for one of them.
    in_sync_replicas: int = key(
        "inSyncReplicas",
        0,
        high=64,
        doc=(
            "How many brokers of the group, the primary included, must have a message before "
            "SYNC_MASTER acknowledges it. 1 waits for none. 0: one replica, as in 4.9."
        ),
    )
    min_in_sync_replicas: int = key(
        "minInSyncReplicas",
        1,
        low=1,
        high=64,
        doc="With fewer members in sync a primary in controller mode refuses messages.",
    )
    total_replicas: int = key(
        "totalReplicas", 1, low=1, high=64, doc="Read and shown; how many brokers the group has."
    )
    timeout_ms: int = key(
        "slaveTimeout",
        3000,
        low=1,
        doc="How long a send waits for replicas. Then the answer is FLUSH_SLAVE_TIMEOUT.",
    )
    behind_max: int = key(
        "haSlaveFallbehindMax",
        256 * MIB,
        low=1,
        doc="A replica further behind is not waited for: the answer is SLAVE_NOT_AVAILABLE.",
    )
    gap_in_sync_max: int = key(
        "haMaxGapNotInSync", 256 * MIB, low=1, doc="A replica less far behind is shown as in sync."
    )

    # Controller mode
    controller_mode: bool = key(
        "enableControllerMode",
        False,
        doc="Whether a controller decides which broker of the group is primary.",
    )
    controllers: str = key(
        "controllerAddr", "", doc="The controllers, `host:port`, several with `;`."
    )

    # Ours is true: with Java's false an acknowledged message can be lost by a failover.
    all_acknowledge: bool = key(
        "allAckInSyncStateSet",
        True,
        doc=(
            "Whether every member of the in-sync set must have a message before it is "
            "acknowledged and can be read. False (Java's default) can lose acknowledged "
            "messages in a failover."
        ),
    )
    not_caught_up_ms: int = key(
        "haMaxTimeSlaveNotCatchup",
        15_000,
        low=100,
        doc="A replica that has not caught up for so long leaves the in-sync set.",
    )
    from_last_file: bool = key(
        "syncFromLastFile",
        False,
        doc="Whether an empty replica takes only the primary's last file.",
    )
    is_learner: bool = key(
        "asyncLearner", False, doc="A learner is sent the log and never joins the in-sync set."
    )
    epoch_file: str = key(
        "storePathEpochFile",
        "",
        doc="The file of epochs. Empty: `epochFileCheckpoint` in the store directory.",
    )
    identity_file: str = key(
        "storePathBrokerIdentity",
        "",
        doc=(
            "The file with the id the controller gave. Empty: `brokerIdentity` in the store "
            "directory."
        ),
    )
    election_priority: int = key(
        "brokerElectionPriority",
        2**31 - 1,
        doc="Of candidates that have the same messages, the smallest is elected.",
    )
    heartbeat_to_controller_ms: int = key(
        "brokerHeartbeatInterval",
        1000,
        low=50,
        doc="How often the broker tells the controllers that it lives.",
    )
    controller_timeout_ms: int = key(
        "controllerHeartBeatTimeoutMills",
        10_000,
        low=100,
        doc=(
            "A broker the controllers have not heard of for so long is dead. A primary that "
            "has reached no controller for so long takes no messages."
        ),
    )
    ask_controller_ms: int = key(
        "syncBrokerMetadataPeriod",
        5000,
        low=50,
        doc="How often the broker asks the controller who is primary.",
    )
    find_controller_ms: int = key(
        "syncControllerMetadataPeriod",
        10_000,
        low=50,
        doc="How often the broker asks which controller leads.",
    )
    check_set_ms: int = key(
        "checkSyncStateSetPeriod",
        5000,
        low=50,
        doc="Read and shown; a primary looks five times a second for replicas that fell behind.",
    )

    def __post_init__(self) -> None:
        for name, text in (
            ("haMasterAddress", self.primary_address),
            ("controllerAddr", self.controllers),
        ):
            for address in filter(None, map(str.strip, re.split("[;,]", text))):
                try:
                    split_address(address)
                except ValueError:
                    raise ConfigError(f"{name} = {text!r}: expected host:port") from None
        if self.controller_mode and not self.controllers.strip():
            raise ConfigError(
                "enableControllerMode = true: controllerAddr names no controller; "
                "set it to host:port, several with ;"
            )

    def controller_addresses(self) -> list[str]:
        """The controllers of ``controllerAddr``, each once."""
        parts = (part.strip() for part in re.split("[;,]", self.controllers))
        return list(dict.fromkeys(part for part in parts if part))
