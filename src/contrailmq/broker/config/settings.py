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

from contrailmq.broker.config.known_keys import KNOWN_KEYS
from contrailmq.errors import ConfigError
from contrailmq.logs import LogLevel
from contrailmq.protocol.hosts import split_address
from contrailmq.protocol.names import MASTER_ID
from contrailmq.settings import key

log = logging.getLogger(__name__)

INT_MAX: Final = 2**31 - 1
EVERYWHERE: Final = ("0.0.0.0", "::")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """The broker's own keys (BrokerConfig); empty names and addresses are found at start."""

    broker_name: str = key(
        "brokerName",
        "",
        doc="The name of the broker in routes. Empty: the host name.",
    )
    cluster_name: str = key(
        "brokerClusterName",
        "DefaultCluster",
        doc="The cluster the broker belongs to.",
    )
    broker_id: int = key(
        "brokerId",
        MASTER_ID,
        low=-1,
        high=2**63 - 1,
        doc="0 is a primary, a greater number a replica. With a controller -1: it gives the id.",
    )
    advertised_ip: str = key(
        "brokerIP1",
        "",
        doc=(
            "The IP address or host name that clients are told to connect to. A name is resolved "
            "by them at each connection; message ids hold the IP address it has at the broker's "
            "start. Empty: the address this machine uses to reach others."
        ),
    )
    ha_ip: str = key(
        "brokerIP2",
        "",
        doc="The address or host name replicas are told to connect to. Empty: as `brokerIP1`.",
    )
    bind_address: str = key(
        "bindAddress",
        "",
        doc=(
            "The address to listen on. Empty: 0.0.0.0 when `brokerIP1` names an address other "
            "machines reach, else 127.0.0.1."
        ),
    )
    listen_port: int = key(
        "listenPort",
        10911,
        high=65535,
        doc=(
            "The port clients connect to; 0 takes a free one. The broker also listens on this "
            "port minus 2 (the VIP port). The name server's default is 9876."
        ),
    )
    namesrv_addr: str = key(
        "namesrvAddr",
        "",
        live=True,
        doc=(
            "Name servers, `a:9876;b:9876`. Empty: `NAMESRV_ADDR` of the environment; without "
            "either no client can find the broker's topics."
        ),
    )
    permission: int = key(
        "brokerPermission",
        6,
        live=True,
        high=15,
        doc="What may be done with topics of this broker: 4 read, 2 write, 6 both.",
    )
    region_id: str = key(
        "regionId",
        "DefaultRegion",
        doc="The region put into every message (`MSG_REGION`) and into the answer to a send.",
    )
    trace_on: bool = key(
        "traceOn",
        True,
        doc="Whether producers are told to trace (`TRACE_ON`).",
    )
    log_level: LogLevel = key(
        "netLogLevel",
        LogLevel.AS_STARTED,
        live=True,
        doc=(
            "What is logged from now on: `debug`, `info`, `warning` or `error`. Empty: what "
            "`--log-level` says."
        ),
    )
    acl_enable: bool = key(
        "aclEnable",
        False,
        doc=(
            "Whether every request is checked against the accounts of `plain_acl.yml` and "
            "`acl/*.yml`, which are beside the configuration file."
        ),
    )
    acl_file: str = key(
        "aclFile",
        "",
        doc=(
            "The path of `plain_acl.yml`. Empty: beside the configuration file, else below "
            "`$ROCKETMQ_HOME/conf`, else in the store's `config`."
        ),
    )
    token_keys: str = key(
        "aclTokenKeys",
        "",
        doc=(
            "The path of a JWKS file. A JSON Web Token in the SecurityToken of a request that one "
            "of its keys signed stands for the account of its subject. Empty: tokens are not "
            "looked at."
        ),
    )
    token_audience: str = key(
        "aclTokenAudience",
        "",
        doc="Whom a token must be meant for (`aud`). Empty: anyone.",
    )
    audit_log: str = key(
        "auditLogPath",
        "",
        doc=(
            "The file of refusals, administration with its results, and failed handshakes, JSON "
            "lines. Empty: `audit.log` in the store while `aclEnable` is true, then the same "
            "entries are messages of the topic `rmq_sys_audit`; otherwise nothing is noted."
        ),
    )
    inner_credentials: str = key(
        "innerClientAuthenticationCredentials",
        "",
        secret=True,
        doc=(
            "The account this broker signs its own requests with: "
            '`{"accessKey":"…","secretKey":"…"}`. It is never shown.'
        ),
    )

    default_topic_queue_nums: int = key(
        "defaultTopicQueueNums",
        8,
        live=True,
        low=1,
        high=65536,
        doc=(
            "The largest number of queues for a topic that a send creates. It is kept as the "
            "template `TBW102` in `topics.json`, which is written at the first start and "
            "follows live changes. At later starts the template counts, as in the original."
        ),
    )
    auto_create_topic: bool = key(
        "autoCreateTopicEnable",
        True,
        live=True,
        doc="Whether the first send to an unknown topic creates it.",
    )
    auto_create_group: bool = key(
        "autoCreateSubscriptionGroup",
        True,
        live=True,
        doc="Whether an unknown group is created when a client first uses it.",
    )
    cluster_topic: bool = key(
        "clusterTopicEnable",
        True,
        doc="Whether the topic named after the cluster may be written and read.",
    )
    broker_topic: bool = key(
        "brokerTopicEnable",
        True,
        doc="Whether the topic named after the broker may be written and read.",
    )
    trace_topic: bool = key(
        "traceTopicEnable",
        False,
        doc="Whether the trace topic is created at the start.",
    )
    trace_topic_name: str = key(
        "msgTraceTopicName",
        "RMQ_SYS_TRACE_TOPIC",
        doc="The name of the trace topic.",
    )
    revive_queue_nums: int = key(
        "reviveQueueNum",
        8,
        low=1,
        high=1024,
        doc="Number of queues of the system topic `rmq_sys_REVIVE_LOG_<cluster>`.",
    )
    retry_topic_v2: bool = key(
        "enableRetryTopicV2",
        False,
        live=True,
        doc="Whether POP retries go to `%RETRY%group+topic` and not to `%RETRY%group_topic`.",
    )
    reads_retry_topic_v1: bool = key(
        "retrieveMessageFromPopRetryTopicV1",
        True,
        live=True,
        doc="Whether every second pop still reads the first form when `enableRetryTopicV2` is on.",
    )
    pop_actual_retry_topic: bool = key(
        "popResponseReturnActualRetryTopic",
        False,
        live=True,
        doc="Whether POP retries are given out under their retry topic, without a handle.",
    )
    pop_waiters_max: int = key(
        "maxPopPollingSize",
        100_000,
        low=1,
        high=10_000_000,
        doc="How many pops and notifications may wait. Further ones are answered at once (209).",
    )
    pop_waiters_max_per_key: int = key(
        "popPollingSize",
        1024,
        low=1,
        high=10_000_000,
        doc="How many of them may wait per group, topic and queue.",
    )
    pop_threshold_enable: bool = key(
        "enablePopMessageThreshold",
        False,
        live=True,
        doc="Whether a queue gives nothing to a group that has too much of it unsettled.",
    )
    pop_threshold: int = key(
        "popInflightMessageThreshold",
        10_000,
        live=True,
        doc="How many popped messages of a queue may be unsettled per group then.",
    )
    init_pop_in_memory: bool = key(
        "initPopOffsetByCheckMsgInMem",
        True,
        live=True,
        doc="Whether a new group that pops from the end begins a young queue at its start.",
    )
    request_mode: str = key(
        "defaultMessageRequestMode",
        "PULL",
        live=True,
        doc=(
            "How clients that leave it to the broker consume: `PULL` or `POP`. "
            "`mqadmin setConsumeMode` sets it per group and topic."
        ),
    )
    pop_share_queue_nums: int = key(
        "defaultPopShareQueueNum",
        -1,
        live=True,
        low=-1,
        doc="How many other members share the queues of one under POP. 0 or less: all of them.",
    )
    balances_load: bool = key(
        "serverLoadBalancerEnable",
        True,
        live=True,
        doc="Whether the broker shares queues out among such clients. Off: each gets all.",
    )
    start_accept_send_ms: int = key(
        "startAcceptSendRequestTimeStamp",
        0,
        live=True,
        doc="Sends before this moment (milliseconds since 1970) are refused. 0 refuses none.",
    )
    reject_transactions: bool = key(
        "rejectTransactionMessage",
        False,
        live=True,
        doc="Whether half messages are refused.",
    )
    transaction_timeout_ms: int = key(
        "transactionTimeOut",
        6000,
        live=True,
        doc="How long the broker waits before it asks a producer about a half message, in ms.",
    )
    transaction_check_max: int = key(
        "transactionCheckMax",
        15,
        live=True,
        doc=(
            "How often the broker asks a producer before the half message goes to "
            "`TRANS_CHECK_MAX_TIME_TOPIC`."
        ),
    )
    transaction_check_interval_ms: int = key(
        "transactionCheckInterval",
        30_000,
        live=True,
        low=1,
        doc="Pause between two rounds of checks, in ms.",
    )
    recall_enable: bool = key(
        "recallMessageEnable",
        True,
        live=True,
        doc=(
            "Whether producers may take back timer messages that are not delivered yet. "
            "The original's default is false."
        ),
    )
    store_replies: bool = key(
        "storeReplyMessageEnable",
        True,
        live=True,
        doc="Whether a reply is also kept in `<cluster>_REPLY_TOPIC`.",
    )

    long_polling: bool = key(
        "longPollingEnable",
        True,
        live=True,
        doc=(
            "Whether a pull that finds no message waits as long as the consumer asked for. "
            "Otherwise it waits for `shortPollingTimeMills`."
        ),
    )
    short_polling_ms: int = key(
        "shortPollingTimeMills",
        1000,
        live=True,
        doc="How long a pull waits when long polling is off, in ms.",
    )
    lite_pull: bool = key(
        "litePullMessageEnable",
        True,
        live=True,
        doc="Whether `LITE_PULL_MESSAGE` is served.",
    )
    slave_read: bool = key(
        "slaveReadEnable",
        False,
        live=True,
        doc="Whether pulls may be sent to replicas.",
    )
    property_filter: bool = key(
        "enablePropertyFilter",
        False,
        doc="Whether SQL subscriptions are served.",
    )
    # Ours; the original has a system property. A client believes in its locks for 30 seconds.
    lock_life_ms: int = key(
        "rebalanceLockMaxLiveTime",
        60_000,
        low=1,
        doc=(
            "How long a queue lock of an ordered consumer lives without being refreshed, in ms. "
            "This key is ours; the original has a system property."
        ),
    )
    calc_filter_bitmap: bool = key(
        "enableCalcFilterBitMap",
        False,
        doc=(
            "Whether bit maps of SQL subscriptions are computed for each message. Needs "
            "`enableConsumeQueueExt`."
        ),
    )
    filter_retry: bool = key(
        "filterSupportRetry",
        False,
        live=True,
        doc="Read and shown; it has no effect.",
    )
    held_pulls_max: int = key(
        "pullThreadPoolQueueCapacity",
        100_000,
        low=1,
        high=10_000_000,
        doc=(
            "How many pulls may wait at the same time. Further pulls are refused with SYSTEM_BUSY."
        ),
    )

    notify_ids_changed: bool = key(
        "notifyConsumerIdsChangedEnable",
        True,
        live=True,
        doc=(
            "Whether members of a group are told when other members come or go. Each group has "
            "its own switch too."
        ),
    )
    channel_expired_ms: int = key(
        "channelExpiredTimeout",
        120_000,
        low=100,
        high=INT_MAX,
        doc="A client that sends no heartbeat for this long is forgotten, in ms.",
    )
    subscription_expired_ms: int = key(
        "subscriptionExpiredTimeout",
        600_000,
        doc="Read and shown; it has no effect.",
    )
    server_side_reset: bool = key(
        "useServerSideResetOffset",
        True,
        live=True,
        doc=(
            "Whether the broker itself resets offsets for callers of version 5.x. For callers "
            "of 4.9 it never does."
        ),
    )

    flush_offsets_ms: int = key(
        "flushConsumerOffsetInterval",
        5000,
        low=100,
        high=INT_MAX,
        doc="How often consumer offsets are written to disk, in ms.",
    )
    register_period_ms: int = key(
        "registerNameServerPeriod",
        30_000,
        doc=(
            "Pause between two registrations with the name servers, in ms. Values outside 10 to "
            "60 s are moved to the nearer bound."
        ),
    )
    register_timeout_ms: int = key(
        "registerBrokerTimeoutMills",
        24_000,
        low=1,
        doc="How long one registration may take, in ms.",
    )

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
    host = settings.bind_address
    if not host:
        given = settings.advertised_ip
        is_near = not given or given.startswith("127.") or given == "localhost"
        host = "127.0.0.1" if is_near else "0.0.0.0"
    ip = settings.advertised_ip or (first_address() if host in EVERYWHERE else host)
    return dataclasses.replace(
        settings, broker_name=name, advertised_ip=ip, ha_ip=settings.ha_ip or ip, bind_address=host
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


# Keys whose effect an operator relies on: security, and a second copy of every message.
PROTECTING: Final = frozenset(
    (
        "aclEnable",
        "authenticationEnabled",
        "authorizationEnabled",
        "enableControllerMode",
        "enableDLegerCommitLog",
        "brokerRole",
        "tlsEnable",
    )
)


def _is_on(value: str) -> bool:
    return value.strip().lower() not in ("", "false", "async_master")


def judge_keys(properties: Mapping[str, str], used: set[str], *, strict: bool) -> None:
    """Say which keys are ignored, and complain of those nobody knows."""
    ignored = sorted(name for name in properties if name not in used and name in KNOWN_KEYS)
    unknown = sorted(name for name in properties if name not in used and name not in KNOWN_KEYS)
    promised = [name for name in ignored if name in PROTECTING and _is_on(properties[name])]
    if promised:
        raise ConfigError(
            f"{', '.join(promised)}: this broker does not do what the key asks for, and without it"
            " data would be open or in one place only; remove the key to start all the same"
        )
    if ignored:
        log.warning("keys of RocketMQ without effect here: keys=%s", ",".join(ignored))
    if unknown and strict:
        raise ConfigError(f"unknown key {', '.join(unknown)}; is it spelled right?")
    if unknown:
        log.warning("unknown keys: keys=%s", ",".join(unknown))
