"""The figures of a name server; the original has none, so the names are ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from contrailmq.clock import Clock
from contrailmq.metrics.model import Family, Group, Histogram, Kind, Labels, Point, labels
from contrailmq.metrics.told import Told
from contrailmq.namesrv.routes import Routes
from contrailmq.net.meter import Result
from contrailmq.net.server import Server
from contrailmq.protocol.codes import RequestCode, ResponseCode

SCOPE: Final = "namesrv-meter"
BOUNDS_MS: Final = (0.1, 0.5, 1, 3, 5, 7, 10, 100, 1000)
_CODES: Final = {int(code): code.name.lower() for code in RequestCode}
_ANSWERS: Final = {int(code): code.name.lower() for code in ResponseCode}


def _gauge(name: str, text: str, unit: str = "") -> Family:
    return Family(f"contrail_namesrv_{name}", Kind.GAUGE, text, unit)


_BROKERS: Final = _gauge("brokers", "Registered addresses of brokers, by cluster.")
_TOPICS: Final = _gauge("topics", "Topics that have a route.")
_SILENCE: Final = _gauge("broker_silence", "How long ago a broker was heard of last.", "seconds")
_CONNECTIONS: Final = _gauge("connections", "Open connections.")
_LATENCY: Final = Family(
    "contrail_namesrv_request_latency", Kind.HISTOGRAM, "How long requests took.", "milliseconds"
)


class NameServerFigures:
    """Tells the tables of a name server, and times its requests (it is its server's meter)."""

    def __init__(self, routes: Routes, server: Server, *, clock: Clock) -> None:
        self._routes = routes
        self._server = server
        self._clock = clock
        self._times: dict[Labels, Histogram] = {}  # bounded by the codes that are known

    def told(self, node_id: str) -> Told:
        """The source, with the labels of a name server; its requests are timed from now on."""
        self._server.measure(self)
        return Told(SCOPE, {"node_type": "namesrv", "node_id": node_id}, [self.source])

    def served(self, code: int, answer: int, took_s: float, result: Result) -> None:
        """A request went through its handler."""
        key = labels(
            request_code=_CODES.get(code, "unknown"), response_code=_ANSWERS.get(answer, "unknown")
        )
        known = self._times.get(key)
        if known is None:
            known = self._times[key] = Histogram(BOUNDS_MS)
        known.add(took_s * 1000)

    def released(self, code: int, answer: int, took_s: float) -> None:
        """A request that was held was answered."""
        self.served(code, answer, took_s, Result.SUCCESS)

    def source(self) -> Iterator[Group]:
        """All families."""
        routes, now_ms = self._routes, self._clock.monotonic_ms()
        leases = dict(routes.leases)
        clusters = Counter(cluster for cluster, _ in leases)
        yield _BROKERS, [Point(labels(cluster=name), n) for name, n in clusters.items()]
        yield (
            _SILENCE,
            [
                Point(
                    labels(cluster=cluster, address=address),
                    max(now_ms - lease.heard_ms, 0) / 1000,
                )
                for (cluster, address), lease in leases.items()
            ],
        )
        yield _TOPICS, [Point((), len(routes.topics))]
        yield _CONNECTIONS, [Point((), self._server.connection_count)]
        yield _LATENCY, [times.spread(key) for key, times in self._times.items()]
