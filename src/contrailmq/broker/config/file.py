"""From ``broker.conf`` and the command line to the settings of every component of a broker."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from contrailmq.broker.config.settings import BrokerSettings, completed, judge_keys
from contrailmq.broker.grpc.settings import GrpcSettings
from contrailmq.errors import ConfigError
from contrailmq.ha.settings import HaSettings
from contrailmq.metrics.settings import MetricsSettings, read_metrics
from contrailmq.net.settings import ClientNetSettings, ServerSettings
from contrailmq.net.tls_settings import TlsSettings, read_tls
from contrailmq.protocol.names import MASTER_ID
from contrailmq.settings import as_properties, keys_of, read
from contrailmq.store.settings import BrokerRole, StoreSettings

log = logging.getLogger(__name__)

COMPONENTS: Final[tuple[type[Any], ...]] = (
    BrokerSettings,
    StoreSettings,
    HaSettings,
    ServerSettings,
    ClientNetSettings,
    TlsSettings,
    MetricsSettings,
    GrpcSettings,
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
    ha: HaSettings
    server: ServerSettings
    client: ClientNetSettings
    tls: TlsSettings = field(default_factory=TlsSettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    grpc: GrpcSettings = field(default_factory=GrpcSettings)

    def properties(self) -> dict[str, str]:
        """Everything that is used, by RocketMQ's keys, sorted."""
        merged: dict[str, str] = {}
        for settings in (
            self.metrics,
            self.grpc,
            self.tls,
            self.client,
            self.server,
            self.ha,
            self.store,
            completed(self.broker),
        ):
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


def read_conf(
    properties: Mapping[str, str], *, strict: bool = False, config_path: str | None = None
) -> BrokerConf:
    """All settings from one set of keys; ConfigError names key, value and what was expected."""
    judge_keys(properties, _used(), strict=strict)
    broker, store = read(BrokerSettings, properties), read(StoreSettings, properties)
    ha = read(HaSettings, properties)
    check_role(broker, store, ha, uses_dledger=properties.get("enableDLegerCommitLog") == "true")
    if ha.controller_mode:  # the role is the controller's to give; until then nothing is written
        store = dataclasses.replace(store, broker_role=BrokerRole.SLAVE)
    elif store.broker_role is not BrokerRole.SLAVE:
        broker = dataclasses.replace(broker, broker_id=MASTER_ID)  # as BrokerStartup does
    return BrokerConf(
        broker=broker,
        store=store,
        ha=ha,
        server=read(ServerSettings, properties),
        client=read(ClientNetSettings, properties),
        tls=read_tls(properties, config_path=config_path),
        metrics=read_metrics(properties),
        grpc=read(GrpcSettings, properties),
    )


def check_role(
    broker: BrokerSettings, store: StoreSettings, ha: HaSettings, *, uses_dledger: bool = False
) -> None:
    """Raise for a part in a replica group that cannot be had."""
    if uses_dledger:
        raise ConfigError(
            "enableDLegerCommitLog = true: a log of DLedger is not served here; "
            "for automatic failover set enableControllerMode and controllerAddr"
        )
    if ha.controller_mode:
        if not ha.all_acknowledge:
            log.warning(
                "allAckInSyncStateSet=false: a failover can lose messages that were acknowledged"
            )
        return
    if store.broker_role is BrokerRole.SLAVE and broker.broker_id <= 0:
        raise ConfigError(
            f"brokerId = {broker.broker_id}: expected more than 0 with brokerRole=SLAVE"
        )


def _used() -> set[str]:
    return {name for component in COMPONENTS for name in keys_of(component)}
