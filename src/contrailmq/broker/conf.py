"""From ``broker.conf`` and the command line to the settings of every component of a broker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from contrailmq.broker.settings import BrokerSettings, completed, judge_keys
from contrailmq.net.settings import ClientNetSettings, ServerSettings
from contrailmq.settings import as_properties, keys_of, read
from contrailmq.store.settings import StoreSettings

COMPONENTS: Final[tuple[type[Any], ...]] = (
    BrokerSettings,
    StoreSettings,
    ServerSettings,
    ClientNetSettings,
)
IMPORTANT_KEYS: Final = (  # what mqbroker -m prints
    "namesrvAddr",
    "brokerIP1",
    "brokerName",
    "brokerClusterName",
    "brokerId",
    "listenPort",
    "autoCreateTopicEnable",
    "autoCreateSubscriptionGroup",
    "brokerRole",
    "flushDiskType",
    "storePathRootDir",
    "fileReservedTime",
    "deleteWhen",
    "maxMessageSize",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConf:
    """All settings of one broker process."""

    broker: BrokerSettings
    store: StoreSettings
    server: ServerSettings
    client: ClientNetSettings

    def properties(self) -> dict[str, str]:
        """Everything that is used, by RocketMQ's keys, sorted."""
        merged: dict[str, str] = {}
        for settings in (self.client, self.server, self.store, completed(self.broker)):
            merged.update(as_properties(settings))
        return dict(sorted(merged.items()))

    def important(self) -> dict[str, str]:
        """What an operator looks at first."""
        properties = self.properties()
        return {name: properties[name] for name in IMPORTANT_KEYS}


def given_keys(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Keys of a command line, the last of each; ConfigError for one that nobody knows."""
    found = dict(pairs)
    judge_keys(found, _used(), strict=True)
    return found


def read_conf(properties: Mapping[str, str], *, strict: bool = False) -> BrokerConf:
    """All settings from one set of keys; ConfigError names key, value and what was expected."""
    judge_keys(properties, _used(), strict=strict)
    return BrokerConf(
        broker=read(BrokerSettings, properties),
        store=read(StoreSettings, properties),
        server=read(ServerSettings, properties),
        client=read(ClientNetSettings, properties),
    )


def _used() -> set[str]:
    return {name for component in COMPONENTS for name in keys_of(component)}
