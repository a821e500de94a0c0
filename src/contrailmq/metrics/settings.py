"""How figures are told to others, under the original's keys where it has one."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from contrailmq.errors import ConfigError
from contrailmq.settings import key, read

PROM_PORT: Final = 5557
_LABEL_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*\Z")


class Exporter(enum.Enum):
    """Where figures go."""

    DISABLE = "DISABLE"
    PROM = "PROM"
    OTLP_GRPC = "OTLP_GRPC"
    LOG = "LOG"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """The keys of a broker's and a name server's figures (BrokerConfig)."""

    exporter: Exporter = key(
        "metricsExporterType",
        Exporter.DISABLE,
        doc=(
            "How figures are told: `PROM` serves `/metrics` for Prometheus, `OTLP_GRPC` pushes "
            "them to an OpenTelemetry collector (needs the extra `otel`), `LOG` writes them to "
            "the log, `DISABLE` does nothing. `contrail up` sets `PROM`."
        ),
    )
    prom_host: str = key(
        "metricsPromExporterHost",
        "",
        doc="The address `/metrics` is served on. Empty: 127.0.0.1; 0.0.0.0 lets others in.",
    )
    prom_port: int = key(
        "metricsPromExporterPort",
        PROM_PORT,
        high=65535,
        doc="The port `/metrics` is served on; 0 takes a free one.",
    )
    port_optional: bool = key(
        "netMetricsPortOptional",
        False,
        doc=(
            "Whether the server also starts when `metricsPromExporterPort` is taken, with a "
            "warning and without `/metrics`. `contrail up` sets it unless a port is given."
        ),
    )
    label: str = key(
        "metricsLabel",
        "",
        doc="Labels added to every figure: `zone:a,team:payments`.",
    )
    in_delta: bool = key(
        "metricsInDelta",
        False,
        doc=(
            "Whether pushed counters tell their growth instead of their sum. Adds the label "
            '`aggregation="delta"`.'
        ),
    )
    cardinality_max: int = key(
        "metricsOtelCardinalityLimit",
        50_000,
        low=1,
        doc=(
            "Most series of one name. The values of the others are told together under the "
            "topic `__other__`."
        ),
    )
    suppress_zero_lag: bool = key(
        "suppressMinValueMetrics",
        False,
        doc="Whether lag, latency and the like are left out where they are 0.",
    )
    bare_names: bool = key(
        "netMetricsBareNames",
        False,
        doc=(
            "Whether figures with a unit are also told without it, as RocketMQ's documents "
            "name them (`rocketmq_storage_size` beside `rocketmq_storage_size_bytes`)."
        ),
    )
    grpc_target: str = key(
        "metricsGrpcExporterTarget",
        "",
        doc="The collector figures are pushed to, `http://127.0.0.1:4317`.",
    )
    grpc_header: str = key(
        "metricsGrpcExporterHeader",
        "",
        secret=True,
        doc="Headers of each push: `api-key:abc,tenant:x`.",
    )
    grpc_timeout_ms: int = key(
        "metricGrpcExporterTimeOutInMills",
        3_000,
        low=1,
        doc="How long one push may take, in ms.",
    )
    grpc_interval_ms: int = key(
        "metricGrpcExporterIntervalInMills",
        60_000,
        low=100,
        doc="Pause between two pushes, in ms.",
    )
    log_interval_ms: int = key(
        "metricLoggingExporterIntervalInMills",
        10_000,
        low=100,
        doc="Pause between two lines of figures in the log, in ms.",
    )

    def common_labels(self) -> dict[str, str]:
        """The labels of ``metricsLabel``; raises ConfigError."""
        found = _pairs("metricsLabel", self.label)
        for name in found:
            if not _LABEL_NAME.match(name):
                raise ConfigError(
                    f"metricsLabel: {name!r} is no name of a label; expected letters, digits and _"
                )
        if self.in_delta:
            found["aggregation"] = "delta"
        return found

    def headers(self) -> dict[str, str]:
        """The headers of ``metricsGrpcExporterHeader``; raises ConfigError."""
        return _pairs("metricsGrpcExporterHeader", self.grpc_header)


def read_metrics(properties: Mapping[str, str]) -> MetricsSettings:
    """The settings in a file's keys; raises ConfigError, also for labels that are none."""
    found = read(MetricsSettings, properties)
    found.common_labels()
    found.headers()
    return found


def _pairs(key_name: str, text: str) -> dict[str, str]:
    """Split ``a:b,c:d``; as BrokerMetricsManager does."""
    found: dict[str, str] = {}
    for piece in text.split(","):
        if not piece.strip():
            continue
        name, colon, value = piece.partition(":")
        if not colon or not name.strip():
            shown = "a pair" if key_name.endswith("Header") else repr(piece)
            raise ConfigError(f"{key_name}: {shown} has no colon; expected name:value,name:value")
        found[name.strip()] = value.strip()
    return found
