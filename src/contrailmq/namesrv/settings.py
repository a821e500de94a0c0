"""What a ``namesrv.conf`` may say: NamesrvConfig's and NettyServerConfig's keys, and our bounds.

Every key of the original is known: used, or named once as ignored.  A key nobody knows is a
warning (an error under ``--strict-config``); a value that does not parse stops the start.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from contrailmq.errors import ConfigError
from contrailmq.net.settings import ServerSettings
from contrailmq.settings import as_properties, key, keys_of, read, update

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

    bind_address: str = key("bindAddress", "0.0.0.0")
    listen_port: int = key("listenPort", PORT)
    kv_config_path: str = key("kvConfigPath", "")
    config_store_path: str = key("configStorePath", "")
    order_message: bool = key("orderMessageEnable", False, live=True)
    return_order_config: bool = key("returnOrderTopicConfigToBroker", True, live=True)
    scan_interval_ms: int = key("scanNotActiveBrokerInterval", 5_000, low=1)
    acting_master: bool = key("supportActingMaster", False, live=True)
    all_topic_list: bool = key("enableAllTopicList", True, live=True)
    topic_list: bool = key("enableTopicList", True, live=True)
    notify_min_id: bool = key("notifyMinBrokerIdChanged", False, live=True)
    wait_for_service: bool = key("needWaitForService", False, live=True)
    wait_seconds: int = key("waitSecondsForService", 45, live=True)
    delete_missing: bool = key("deleteTopicWithBrokerRegistration", False, live=True)
    config_black_list: str = key("configBlackList", "configBlackList;configStorePath;kvConfigPath")
    topics_max: int = key("namesrvTopicsMax", 200_000)
    brokers_max: int = key("namesrvBrokersMax", 10_000)
    kv_entries_max: int = key("namesrvKvEntriesMax", 100_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """All of a ``namesrv.conf``: what is used, and what is only kept."""

    settings: NameServerSettings = field(default_factory=NameServerSettings)
    server: ServerSettings = field(default_factory=ServerSettings)
    ignored: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, properties: Mapping[str, str], *, strict: bool = False) -> Configuration:
        """Judge every key of a file; raises ConfigError."""
        used = keys_of(NameServerSettings) | keys_of(ServerSettings)
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
        )

    def updated(self, properties: Mapping[str, str]) -> Configuration:
        """With new values of keys that may change while running; raises ConfigError."""
        used = keys_of(NameServerSettings) | keys_of(ServerSettings)
        for name in properties:
            if name not in used and name not in IGNORED:
                raise ConfigError(f"{name}: no such setting")
        settings = update(self.settings, properties, live_only=True)
        server_only = {n: t for n, t in properties.items() if n not in keys_of(NameServerSettings)}
        server = update(self.server, server_only, live_only=True)
        _check(settings)
        kept = {name: text for name, text in properties.items() if name in IGNORED}
        return Configuration(settings=settings, server=server, ignored={**self.ignored, **kept})

    def black_list(self) -> frozenset[str]:
        """The keys nobody may change over the wire."""
        listed = self.settings.config_black_list.split(";")
        return frozenset(name.strip() for name in (*listed, *ALWAYS_BLACK) if name.strip())

    def as_text(self) -> str:
        """Every key with its value, sorted, as code 319 shows them."""
        everything = {
            **IGNORED,
            **self.ignored,
            **as_properties(self.server),
            **as_properties(self.settings),
        }
        return "".join(f"{name}={everything[name]}\n" for name in sorted(everything))


def _check(settings: NameServerSettings) -> None:
    for name, value, low, high in (
        ("listenPort", settings.listen_port, 0, 65535),
        ("scanNotActiveBrokerInterval", settings.scan_interval_ms, 10, 86_400_000),
        ("namesrvTopicsMax", settings.topics_max, 1, 100_000_000),
        ("namesrvBrokersMax", settings.brokers_max, 1, 10_000_000),
    ):
        if not low <= value <= high:
            raise ConfigError(f"{name} = {value}: expected {low} to {high}")
