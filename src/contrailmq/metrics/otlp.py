"""Push figures to an OpenTelemetry collector (``metricsExporterType=OTLP_GRPC``).

The figures are read by the loop that owns them and become the SDK's own data objects; the SDK's
exporter sends them from a thread.  Needs ``pip install 'contrailmq[otel]'``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Any, Final

from contrailmq.clock import Clock
from contrailmq.errors import ConfigError
from contrailmq.metrics.model import Family, Kind, Labels, Point, Spread
from contrailmq.metrics.settings import MetricsSettings
from contrailmq.metrics.told import Told
from contrailmq.version import VERSION

log = logging.getLogger(__name__)

MISSING: Final = (
    "metricsExporterType = OTLP_GRPC needs the OpenTelemetry SDK; "
    "install it with: pip install 'contrailmq[otel]'"
)
TURN_S: Final = 0.001


class OtlpPush:
    """Pushes until cancelled, and once more then."""

    def __init__(self, settings: MetricsSettings, told: Sequence[Told], *, clock: Clock) -> None:
        self._settings = settings
        self._told = told
        self._clock = clock
        self._began_ns = clock.now_ms() * 1_000_000
        self._last: dict[tuple[str, str, Labels], tuple[float, ...]] = {}
        self._exporter = _exporter(settings)

    async def run(self) -> None:
        """Push every ``metricGrpcExporterIntervalInMills``."""
        try:
            while True:
                await asyncio.sleep(self._settings.grpc_interval_ms / 1000)
                await self.push()
        finally:
            await asyncio.to_thread(self._exporter.shutdown)

    async def push(self) -> None:
        """Send what holds now; a collector that does not answer is a warning."""
        data = await self._data()
        try:
            result = await asyncio.to_thread(
                self._exporter.export, data, self._settings.grpc_timeout_ms
            )
        except Exception as error:
            log.warning("figures not pushed: target=%s error=%s", self._settings.grpc_target, error)
            return
        if result.name != "SUCCESS":
            log.warning("figures not pushed: target=%s", self._settings.grpc_target)

    async def _data(self) -> Any:
        from opentelemetry.sdk.metrics import export
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        now_ns = self._clock.now_ms() * 1_000_000
        scopes = []
        for told in self._told:
            found: list[Any] = []
            for family, points in told.groups():
                metric = await self._metric(export, told, family, points, now_ns=now_ns)
                if metric is not None:
                    found.append(metric)
            scope = InstrumentationScope(told.scope, VERSION)
            scopes.append(export.ScopeMetrics(scope=scope, metrics=found, schema_url=""))
        if self._settings.in_delta:
            self._began_ns = now_ns
        resource = Resource.create({"service.name": "contrailmq", "service.version": VERSION})
        whole = export.ResourceMetrics(resource=resource, scope_metrics=scopes, schema_url="")
        return export.MetricsData(resource_metrics=[whole])

    async def _metric(
        self, export: Any, told: Told, family: Family, points: Iterable[Point | Spread], *,
        now_ns: int,
    ) -> Any:  # fmt: skip
        loop = asyncio.get_running_loop()
        turn_end = loop.time() + TURN_S
        found: list[Any] = []
        for point in points:
            if len(found) < self._settings.cardinality_max:
                found.append(self._point(export, told, family, point, now_ns=now_ns))
            if loop.time() >= turn_end:
                await asyncio.sleep(0)
                turn_end = loop.time() + TURN_S
        if not found:
            return None
        times = export.AggregationTemporality
        temporality = times.DELTA if self._settings.in_delta else times.CUMULATIVE
        if family.kind is Kind.GAUGE:
            data = export.Gauge(data_points=found)
        elif family.kind is Kind.COUNTER:
            data = export.Sum(
                data_points=found, aggregation_temporality=temporality, is_monotonic=True
            )
        else:
            data = export.Histogram(data_points=found, aggregation_temporality=temporality)
        return export.Metric(name=family.name, description=family.help, unit=family.unit, data=data)

    def _point(
        self, export: Any, told: Told, family: Family, point: Point | Spread, *, now_ns: int
    ) -> Any:
        attributes = {**told.common, **dict(point.labels)}
        times = {"start_time_unix_nano": self._began_ns, "time_unix_nano": now_ns}
        if isinstance(point, Point):
            value = point.value
            if family.kind is Kind.COUNTER:
                (value,) = self._grown(told, family, point.labels, (point.value,))
            return export.NumberDataPoint(attributes=attributes, value=value, **times)
        total, *counts = self._grown(told, family, point.labels, (point.sum, *point.counts))
        return export.HistogramDataPoint(
            attributes=attributes,
            count=int(sum(counts)),
            sum=float(total),
            bucket_counts=[int(count) for count in counts],
            explicit_bounds=[float(bound) for bound in point.bounds],
            min=0.0,
            max=float(point.bounds[-1]),
            **times,
        )

    def _grown(
        self, told: Told, family: Family, labels: Labels, values: tuple[float, ...]
    ) -> tuple[float, ...]:
        """The values, or with ``metricsInDelta`` their growth since the last push."""
        if not self._settings.in_delta:
            return values
        key = (told.scope, family.name, labels)
        before = self._last.get(key, (0,) * len(values))
        self._last[key] = values
        return tuple(new - old for new, old in zip(values, before, strict=True))


def _exporter(settings: MetricsSettings) -> Any:
    try:
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
    except ImportError as error:
        raise ConfigError(MISSING) from error
    if not settings.grpc_target:
        raise ConfigError(
            "metricsGrpcExporterTarget is empty: expected the collector's address, "
            "for example http://127.0.0.1:4317"
        )
    target = settings.grpc_target
    return OTLPMetricExporter(
        endpoint=target,
        insecure=not target.startswith("https://"),
        headers=tuple((name.lower(), value) for name, value in settings.headers().items()),
        timeout=max(settings.grpc_timeout_ms // 1000, 1),
    )
