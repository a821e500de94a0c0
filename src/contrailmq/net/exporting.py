"""Tell the figures of a process: as pages, to a collector, or in the log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

from contrailmq.clock import Clock
from contrailmq.errors import ConfigError
from contrailmq.lifecycle import running
from contrailmq.metrics.loop_delay import LoopDelay
from contrailmq.metrics.model import Point
from contrailmq.metrics.otlp import OtlpPush
from contrailmq.metrics.process import ProcessFigures
from contrailmq.metrics.settings import Exporter, MetricsSettings
from contrailmq.metrics.text import (
    DROPPED,
    OPEN_TYPE,
    TEXT_TYPE,
    TextWriter,
    head,
    joined,
    scope_lines,
)
from contrailmq.metrics.told import Told
from contrailmq.net.network import Network
from contrailmq.net.pages import Page, Pages, Visit
from contrailmq.usage import listen_fault

log = logging.getLogger(__name__)

LOOPBACK: Final = "127.0.0.1"
KEY: Final = "metricsPromExporterPort"


@dataclass(slots=True, kw_only=True)
class World:
    """What exporting needs of the outside. ``ready`` says why the server cannot serve, or None."""

    clock: Clock
    network: Network
    ready: Callable[[], str | None]


@asynccontextmanager
async def exporting(
    settings: MetricsSettings, told: Sequence[Told], world: World
) -> AsyncIterator[str]:
    """Tell figures for the length of a block; yields the address of the pages, or nothing.

    The first of ``told`` also tells of the process.  Raises ConfigError.
    """
    common = settings.common_labels()
    everything = [Told(each.scope, {**each.common, **common}, each.sources) for each in told]
    if settings.exporter is Exporter.DISABLE:
        yield ""
        return
    delay = LoopDelay()
    process = ProcessFigures(world.clock.now_ms())
    first = everything[0]
    first.sources = [*first.sources, delay.source, process.source]
    async with AsyncExitStack() as stack:
        address = ""
        if settings.exporter is Exporter.PROM:
            address = await _serve(settings, everything, world, stack)
        elif settings.exporter is Exporter.OTLP_GRPC:
            push = OtlpPush(settings, everything, clock=world.clock)
            await stack.enter_async_context(running(push.run(), name="otlp"))
        else:
            await stack.enter_async_context(running(_log(settings, everything), name="figures"))
        await stack.enter_async_context(running(delay.run(), name="loop delay"))
        yield address


async def _serve(
    settings: MetricsSettings, told: Sequence[Told], world: World, stack: AsyncExitStack
) -> str:
    host, port = settings.prom_host or LOOPBACK, settings.prom_port
    page = MetricsPage(settings, told)

    async def healthy(visit: Visit) -> Page:
        return Page(b"ok\n")

    async def ready(visit: Visit) -> Page:
        reason = world.ready()
        return Page(b"ok\n") if reason is None else Page(f"{reason}\n".encode(), 503)

    pages = Pages({"/metrics": page, "/healthz": healthy, "/readyz": ready}, network=world.network)
    try:
        await pages.start(host, port)
    except OSError as error:
        fault = listen_fault(error, host=host, port=port, option=KEY)
        if not settings.port_optional:
            raise ConfigError(fault) from error
        log.warning("no /metrics: key=%s reason=%s", KEY, fault)
        return ""
    stack.push_async_callback(pages.aclose)
    log.info("metrics served: host=%s port=%s", host, pages.port)
    return f"http://{host}:{pages.port}/metrics"


class MetricsPage:
    """The page Prometheus reads."""

    def __init__(self, settings: MetricsSettings, told: Sequence[Told]) -> None:
        self._told = [
            (
                each,
                TextWriter(
                    each.scope,
                    tuple(each.common.items()),
                    limit=settings.cardinality_max,
                    bare_names=settings.bare_names,
                ),
            )
            for each in told
        ]

    async def __call__(self, visit: Visit) -> Page:
        """All figures, in the format that is asked for."""
        is_open = "application/openmetrics-text" in visit.headers.get("accept", "")
        pieces = [joined(scope_lines([told.scope for told, _ in self._told], is_open=is_open))]
        for told, writer in self._told:
            pieces.append(await writer.write(told.groups(), is_open=is_open))
        lines = head(DROPPED, is_open=is_open)
        for _, writer in self._told:
            lines += writer.rest()
        if is_open:
            lines.append("# EOF")
        pieces.append(joined(lines))
        return Page(b"".join(pieces), kind=OPEN_TYPE if is_open else TEXT_TYPE)


async def _log(settings: MetricsSettings, told: Sequence[Told]) -> None:
    """Write every value to the log, again and again."""
    while True:
        await asyncio.sleep(settings.log_interval_ms / 1000)
        for each in told:
            for family, points in each.groups():
                for point in points:
                    value = point.value if isinstance(point, Point) else point.sum
                    log.info(
                        "figure: name=%s value=%s labels=%s",
                        family.full_name,
                        value,
                        dict(point.labels),
                    )
                await asyncio.sleep(0)
