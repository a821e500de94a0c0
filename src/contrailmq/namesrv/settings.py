"""What a ``namesrv.conf`` may say: NamesrvConfig's and NettyServerConfig's keys, and our bounds.

Every key of the original is known: used, or named once as ignored.  A key nobody knows is a
warning (an error under ``--strict-config``); a value that does not parse stops the start.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from contrailmq.errors import ConfigError
from contrailmq.metrics.settings import MetricsSettings, read_metrics
from contrailmq.net.settings import ServerSettings
from contrailmq.net.tls_settings import TlsSettings, read_tls
from contrailmq.security.addresses import AddressPatterns
from contrailmq.settings import (
    BLANKS,
    as_properties,
    is_guarded,
    key,
    keys_of,
    property_line,
    read,
    update,
    value_fault,
)

log = logging.getLogger(__name__)

PORT: Final = 9876

# Keys of the original that have no meaning here, with their defaults there: threads, Netty's
# buffers, the controller of 5.x. They are kept, shown by code 319, and do nothing.
IGNORED: Final[Mapping[str, str]] = {
    "clientRequestThreadPoolNums": "8",
    "clientRequestThreadPoolQueueCapacity": "50000",
    "clusterTest": "false",
    "defaultThreadPoolNums": "16",
    "defaultThreadPoolQueueCapacity": "10000",
    "enableControllerInNamesrv": "false",
    "enableShutdownGracefully": "false",
    "productEnvName": "center",
    "rocketmqHome": "",
    "serverAsyncSemaphoreValue": "64",
    "serverCallbackExecutorThreads": "0",
    "serverNettyWorkerGroupEnable": "true",
    "serverOnewaySemaphoreValue": "256",
    "serverPooledByteBufAllocatorEnable": "true",
    "serverSelectorThreads": "3",
    "serverSocketRcvBufSize": "0",
    "serverSocketSndBufSize": "0",
    "serverWorkerThreads": "8",
    "shutdownWaitTimeSeconds": "30",
    "unRegisterBrokerQueueCapacity": "3000",
    "useEpollNativeSelector": "false",
    "writeBufferHighWaterMark": "0",
    "writeBufferLowWaterMark": "0",
}
ALWAYS_BLACK: Final = ("configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome")


@dataclass(frozen=True, slots=True, kw_only=True)
class NameServerSettings:
    """The name server's own keys (NamesrvConfig); an empty path means that nothing is kept."""

    bind_address: str = key(
        "bindAddress",
        "127.0.0.1",
        doc="The address to listen on. 0.0.0.0 lets other machines in.",
    )
    listen_port: int = key(
        "listenPort",
        PORT,
        doc="The port to listen on; 0 takes a free one.",
    )
    kv_config_path: str = key(
        "kvConfigPath",
        "",
        doc="The file of the KV configuration. Empty: it is kept in memory only.",
    )
    config_store_path: str = key(
        "configStorePath",
        "",
        doc="The file that live changes are written to. Empty: they are kept in memory only.",
    )
    order_message: bool = key(
        "orderMessageEnable",
        False,
        live=True,
        doc="Whether routes carry the order configuration of their topic.",
    )
    return_order_config: bool = key(
        "returnOrderTopicConfigToBroker",
        True,
        live=True,
        doc="Whether a registration is answered with the order configuration.",
    )
    scan_interval_ms: int = key(
        "scanNotActiveBrokerInterval",
        5_000,
        low=1,
        doc="Pause between two searches for brokers that stopped sending heartbeats, in ms.",
    )
    acting_master: bool = key(
        "supportActingMaster",
        False,
        live=True,
        doc="Whether routes name a slave in place of a missing master.",
    )
    all_topic_list: bool = key(
        "enableAllTopicList",
        True,
        live=True,
        doc="Whether clients may ask for the list of all topics.",
    )
    topic_list: bool = key(
        "enableTopicList",
        True,
        live=True,
        doc="Whether clients may ask for other lists of topics.",
    )
    notify_min_id: bool = key(
        "notifyMinBrokerIdChanged",
        False,
        live=True,
        doc="Whether brokers are told when the smallest broker id of their group changes.",
    )
    wait_for_service: bool = key(
        "needWaitForService",
        False,
        live=True,
        doc="Whether routes are refused for `waitSecondsForService` after the start.",
    )
    wait_seconds: int = key(
        "waitSecondsForService",
        45,
        live=True,
        doc="How long routes are refused after the start, in seconds.",
    )
    delete_missing: bool = key(
        "deleteTopicWithBrokerRegistration",
        False,
        live=True,
        doc="Whether topics that a broker no longer registers are removed.",
    )
    config_black_list: str = key(
        "configBlackList",
        "configBlackList;configStorePath;kvConfigPath",
        doc="Keys that may not be changed over the wire, separated by `;`.",
    )
    topics_max: int = key(
        "namesrvTopicsMax",
        200_000,
        doc="Most topics. A registration that would exceed it is refused.",
    )
    brokers_max: int = key(
        "namesrvBrokersMax",
        10_000,
        doc="Most brokers. A registration that would exceed it is refused.",
    )
    kv_entries_max: int = key(
        "namesrvKvEntriesMax",
        100_000,
        doc="Most entries of the KV configuration.",
    )
    acl_enable: bool = key(
        "aclEnable",
        False,
        doc=(
            "Whether every request is checked against the accounts of `plain_acl.yml` and "
            "`acl/*.yml`, which are beside the configuration file."
        ),
    )
    trusted_brokers: str = key(
        "namesrvTrustedBrokers",
        "127.0.0.1,::1",
        doc=(
            "Addresses of brokers whose registrations need no signature while `aclEnable` is "
            "true, separated by commas. Brokers of the original do not sign."
        ),
    )

    def trusted(self) -> AddressPatterns:
        """Return the addresses whose registrations need no signature; raises ConfigError."""
        texts = self.trusted_brokers.replace(";", ",").split(",")
        return AddressPatterns([*texts, self.bind_address] if _is_one(self.bind_address) else texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """All of a ``namesrv.conf``: what is used, and what is only kept."""

    settings: NameServerSettings = field(default_factory=NameServerSettings)
    server: ServerSettings = field(default_factory=ServerSettings)
    ignored: Mapping[str, str] = field(default_factory=dict)
    tls: TlsSettings = field(default_factory=TlsSettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)

    @classmethod
    def of(cls, properties: Mapping[str, str], *, strict: bool = False) -> Configuration:
        """Judge every key of a file; raises ConfigError."""
        used = keys_of(NameServerSettings) | keys_of(ServerSettings) | keys_of(TlsSettings)
        used |= keys_of(MetricsSettings)
        for name in sorted(set(properties) - used):
            if name in IGNORED:
                log.info("setting has no meaning here and is ignored: key=%s", name)
            elif strict:
                raise ConfigError(f"{name} = {properties[name]!r}: no such setting")
            else:
                log.warning("setting is unknown: key=%s", name)
        settings = read(NameServerSettings, properties)
        _check(settings)
        return cls(
            settings=settings,
            server=read(ServerSettings, properties),
            ignored={name: text for name, text in properties.items() if name in IGNORED},
            tls=read_tls(properties, config_path=settings.config_store_path or None),
            metrics=read_metrics(properties),
        )

    def updated(self, properties: Mapping[str, str]) -> Configuration:
        """With new values of keys that may change while running; raises ConfigError."""
        used = keys_of(NameServerSettings) | keys_of(ServerSettings) | keys_of(MetricsSettings)
        for name, value in properties.items():
            if name not in used and name not in IGNORED:
                raise ConfigError(f"{name}: no such setting")
            fault = value_fault(name, value)
            if fault is not None:
                raise ConfigError(fault)
        update(self.metrics, properties, live_only=True)  # refuses
        settings = update(self.settings, properties, live_only=True)
        server_only = {n: t for n, t in properties.items() if n not in keys_of(NameServerSettings)}
        server = update(self.server, server_only, live_only=True)
        _check(settings)
        kept = {name: text.strip(BLANKS) for name, text in properties.items() if name in IGNORED}
        ignored = {**self.ignored, **kept}
        return replace(self, settings=settings, server=server, ignored=ignored)

    def black_list(self) -> frozenset[str]:
        """The keys nobody may change over the wire."""
        listed = self.settings.config_black_list.split(";")
        known = (
            *keys_of(NameServerSettings), *keys_of(ServerSettings), *keys_of(MetricsSettings),
            *IGNORED,
        )  # fmt: skip
        guarded = (name for name in known if is_guarded(name))
        return frozenset(
            name.strip() for name in (*listed, *ALWAYS_BLACK, *guarded) if name.strip()
        )

    def as_text(self) -> str:
        """Every key with its value, sorted, as code 319 shows them."""
        everything = {
            **IGNORED,
            **self.ignored,
            **as_properties(self.metrics),
            **as_properties(self.tls),
            **as_properties(self.server),
            **as_properties(self.settings),
        }
        return "".join(property_line(name, everything[name]) for name in sorted(everything))


def _is_one(address: str) -> bool:
    return address not in ("", "0.0.0.0", "::") and address[:1].isdigit()


def _check(settings: NameServerSettings) -> None:
    settings.trusted()
    for name, value, low, high in (
        ("listenPort", settings.listen_port, 0, 65535),
        ("scanNotActiveBrokerInterval", settings.scan_interval_ms, 10, 86_400_000),
        ("namesrvTopicsMax", settings.topics_max, 1, 100_000_000),
        ("namesrvBrokersMax", settings.brokers_max, 1, 10_000_000),
    ):
        if not low <= value <= high:
            raise ConfigError(f"{name} = {value}: expected {low} to {high}")
