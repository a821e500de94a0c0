"""``contrail up`` and its figures: which door is open, and what each process tells."""

from __future__ import annotations

from typing import Final, Protocol

from contrailmq.metrics.settings import Exporter, MetricsSettings
from contrailmq.metrics.told import Told

EXPORTER_KEY: Final = "metricsExporterType"
PORT_KEY: Final = "metricsPromExporterPort"
PORT_OPTIONAL_KEY: Final = "netMetricsPortOptional"


class Telling(Protocol):
    """What this module needs of a name server."""

    def told(self, node_id: str) -> Told:
        """Its figures."""
        ...


def add_defaults(properties: dict[str, str], *, is_fixed: bool) -> None:
    """Serve ``/metrics`` unless told otherwise; where ports are free ones only when asked to.

    A default port that is taken does not keep the cluster from starting. Where ports are free
    ones, gRPC's door is open only when asked for, too.
    """
    if is_fixed:
        properties.setdefault(EXPORTER_KEY, Exporter.PROM.value)
    else:
        properties.setdefault("grpcServerPort", "0")
    if PORT_KEY not in properties:
        properties.setdefault(PORT_OPTIONAL_KEY, "true")


def child_keys(settings: MetricsSettings, number: int) -> list[tuple[str, str]]:
    """The keys of a broker in a process of its own; the name server has the first port."""
    port = settings.prom_port
    return [
        (EXPORTER_KEY, settings.exporter.value),
        (PORT_OPTIONAL_KEY, str(settings.port_optional).lower()),
        (PORT_KEY, str(port + 1 + number if port else 0)),
    ]


def beside(settings: MetricsSettings, names: Telling, address: str) -> list[Told]:
    """The name server's figures, told together with those of a broker of its process."""
    return [] if settings.exporter is Exporter.DISABLE else [names.told(address)]


def shown(address: str) -> str:
    """What the line at the start says of the page."""
    return f", metrics {address}" if address else ""
