"""How long requests took, by code and answer (RemotingMetricsManager's ``rpc_latency``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from contrailmq._native.lanes.times import Times
from contrailmq.broker.services.latencies import regrouped
from contrailmq.metrics.model import Family, Group, Histogram, Kind, Spread, flag, labels
from contrailmq.net.meter import Result
from contrailmq.protocol.codes import RequestCode, ResponseCode

BOUNDS_MS: Final = (1, 3, 5, 7, 10, 100, 1000, 2000, 3000)
UNKNOWN: Final = -1  # codes no server knows are counted together: a peer can make up any number
FAMILY: Final = Family(
    "rocketmq_rpc_latency", Kind.HISTOGRAM,
    "How long requests took, from the moment they were read to that of their answer.",
    "milliseconds",
)  # fmt: skip
_CODES: Final = {int(code): code.name.lower() for code in RequestCode}
_ANSWERS: Final = {int(code): code.name.lower() for code in ResponseCode}


class _Key(NamedTuple):
    code: int
    answer: int
    is_held: bool
    result: Result


class RpcTimes:
    """The meter of a broker's servers; ``lanes`` are the times of requests it never hears of."""

    def __init__(self) -> None:
        self._times: dict[_Key, Histogram] = {}  # bounded by the codes that are known
        self.lanes: dict[RequestCode, Times] = {}
        self.count = 0

    def served(self, code: int, answer: int, took_s: float, result: Result) -> None:
        """A request went through its handler."""
        self._add(_Key(code, answer, False, result), took_s)

    def released(self, code: int, answer: int, took_s: float) -> None:
        """A long poll was answered."""
        self._add(_Key(code, answer, True, Result.SUCCESS), took_s)

    def _add(self, key: _Key, took_s: float) -> None:
        self.count += 1
        known = self._times.get(key)
        if known is None:
            key = _Key(
                key.code if key.code in _CODES else UNKNOWN,
                key.answer if key.answer in _ANSWERS else UNKNOWN,
                key.is_held,
                key.result,
            )
            known = self._times.setdefault(key, Histogram(BOUNDS_MS))
        known.add(took_s * 1000)

    def source(self) -> Iterator[Group]:
        """All of them; requests of the lanes among them."""
        yield FAMILY, self._spreads()

    def _spreads(self) -> Iterator[Spread]:
        found = {key: (list(h.counts), h.sum) for key, h in self._times.items()}
        for code, times in self.lanes.items():
            if times.total:
                key = _Key(int(code), int(ResponseCode.SUCCESS), False, Result.SUCCESS)
                counts, total = found.get(key, ([0] * (len(BOUNDS_MS) + 1), 0.0))
                more = regrouped(times.counts(), BOUNDS_MS)
                merged = [a + b for a, b in zip(counts, more, strict=True)]
                found[key] = (merged, total + times.sum_ns / 1_000_000)
        for key, (counts, total) in found.items():
            yield Spread(
                labels(
                    protocol_type="remoting",
                    request_code=_CODES.get(key.code, "unknown"),
                    response_code=_ANSWERS.get(key.answer, "unknown"),
                    is_long_polling=flag(key.is_held),
                    result=key.result.value,
                ),
                BOUNDS_MS,
                counts,
                total,
            )
