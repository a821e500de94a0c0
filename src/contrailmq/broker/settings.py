"""What a ``broker.conf`` says to the broker itself, and how the file as a whole is judged.

One file feeds several settings objects (broker, store, server).  A key RocketMQ has and we do not
use is named once at INFO; a key nobody knows is a warning, or an error under ``--strict-config``.
"""

from __future__ import annotations

import dataclasses
import logging
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from contrailmq.broker.known_keys import KNOWN_KEYS
from contrailmq.errors import ConfigError
from contrailmq.protocol.hosts import split_address
from contrailmq.settings import key

log = logging.getLogger(__name__)

MASTER_ID: Final = 0
INT_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """The broker's own keys (BrokerConfig); empty names and addresses are found at start."""

    broker_name: str = key("brokerName", "")
    cluster_name: str = key("brokerClusterName", "DefaultCluster")
    broker_id: int = key("brokerId", MASTER_ID, high=2**63 - 1)
    advertised_ip: str = key("brokerIP1", "")
    ha_ip: str = key("brokerIP2", "")
    bind_address: str = key("bindAddress", "0.0.0.0")
    listen_port: int = key("listenPort", 10911, high=65535)
    namesrv_addr: str = key("namesrvAddr", "", live=True)
    permission: int = key("brokerPermission", 6, live=True, high=15)
    region_id: str = key("regionId", "DefaultRegion")
    trace_on: bool = key("traceOn", True)

    default_topic_queue_nums: int = key("defaultTopicQueueNums", 8, live=True, low=1, high=65536)
    auto_create_topic: bool = key("autoCreateTopicEnable", True, live=True)
    auto_create_group: bool = key("autoCreateSubscriptionGroup", True, live=True)
    cluster_topic: bool = key("clusterTopicEnable", True)
    broker_topic: bool = key("brokerTopicEnable", True)
    trace_topic: bool = key("traceTopicEnable", False)
    trace_topic_name: str = key("msgTraceTopicName", "RMQ_SYS_TRACE_TOPIC")
    revive_queue_nums: int = key("reviveQueueNum", 8, low=1, high=1024)
    start_accept_send_ms: int = key("startAcceptSendRequestTimeStamp", 0, live=True)
    reject_transactions: bool = key("rejectTransactionMessage", False, live=True)
    transaction_timeout_ms: int = key("transactionTimeOut", 6000, live=True)
    transaction_check_max: int = key("transactionCheckMax", 15, live=True)
    transaction_check_interval_ms: int = key("transactionCheckInterval", 30_000, live=True, low=1)
    store_replies: bool = key("storeReplyMessageEnable", True, live=True)

    long_polling: bool = key("longPollingEnable", True, live=True)
    short_polling_ms: int = key("shortPollingTimeMills", 1000, live=True)
    lite_pull: bool = key("litePullMessageEnable", True, live=True)
    slave_read: bool = key("slaveReadEnable", False, live=True)
    property_filter: bool = key("enablePropertyFilter", False)
    # Ours; the original has a system property. A client believes in its locks for 30 seconds.
    lock_life_ms: int = key("rebalanceLockMaxLiveTime", 60_000, low=1)
    calc_filter_bitmap: bool = key("enableCalcFilterBitMap", False)
    filter_retry: bool = key("filterSupportRetry", False, live=True)
    held_pulls_max: int = key("pullThreadPoolQueueCapacity", 100_000, low=1, high=10_000_000)

    notify_ids_changed: bool = key("notifyConsumerIdsChangedEnable", True, live=True)
    channel_expired_ms: int = key("channelExpiredTimeout", 120_000, low=100, high=INT_MAX)
    subscription_expired_ms: int = key("subscriptionExpiredTimeout", 600_000)
    server_side_reset: bool = key("useServerSideResetOffset", True, live=True)

    flush_offsets_ms: int = key("flushConsumerOffsetInterval", 5000, low=100, high=INT_MAX)
    register_period_ms: int = key("registerNameServerPeriod", 30_000)
    register_timeout_ms: int = key("registerBrokerTimeoutMills", 24_000, low=1)

    def __post_init__(self) -> None:
        for address in filter(None, map(str.strip, re.split("[;,]", self.namesrv_addr))):
            try:
                split_address(address)
            except ValueError:
                raise ConfigError(
                    f"namesrvAddr = {self.namesrv_addr!r}: expected host:port, several with ;"
                ) from None

    @property
    def is_master(self) -> bool:
        """Whether this broker takes writes (MixAll.MASTER_ID)."""
        return self.broker_id == MASTER_ID


def completed(settings: BrokerSettings) -> BrokerSettings:
    """The settings with what only the machine knows: its host name and its first address."""
    name = settings.broker_name or socket.gethostname() or "DEFAULT_BROKER"
    ip = settings.advertised_ip or first_address()
    return dataclasses.replace(
        settings, broker_name=name, advertised_ip=ip, ha_ip=settings.ha_ip or ip
    )


def first_address() -> str:
    """The address other machines see, as far as this one can tell; loopback when it is alone."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # TEST-NET: picks the route, sends nothing
            address = str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"
    return address if address != "0.0.0.0" else "127.0.0.1"


def judge_keys(properties: Mapping[str, str], used: set[str], *, strict: bool) -> None:
    """Say which keys are ignored, and complain of those nobody knows."""
    ignored = sorted(name for name in properties if name not in used and name in KNOWN_KEYS)
    unknown = sorted(name for name in properties if name not in used and name not in KNOWN_KEYS)
    if ignored:
        log.info("keys of RocketMQ that mean nothing here: keys=%s", ",".join(ignored))
    if unknown and strict:
        raise ConfigError(f"nobody knows the key {', '.join(unknown)}; is it spelled right?")
    if unknown:
        log.warning("keys nobody knows: keys=%s", ",".join(unknown))
