"""What Prometheus reads: names, labels, numbers, limits."""

from __future__ import annotations

import asyncio

import pytest

from contrailmq.errors import ConfigError
from contrailmq.metrics.model import Family, Group, Histogram, Kind, Point, labels
from contrailmq.metrics.settings import Exporter, MetricsSettings, read_metrics
from contrailmq.metrics.text import TextWriter, number, scope_lines

LAG = Family("lag", Kind.GAUGE, "Help.", "milliseconds")
SENT = Family("sent_total", Kind.COUNTER, "Help.")
TOOK = Family("took", Kind.HISTOGRAM, "Help.", "seconds")


def _written(writer: TextWriter, groups: list[Group], *, is_open: bool = False) -> list[str]:
    return asyncio.run(writer.write(groups, is_open=is_open)).decode().splitlines()


def test_a_point_has_the_scope_first_and_its_labels_sorted() -> None:
    writer = TextWriter("broker-meter", (("node_id", "a"), ("cluster", "C")))
    lines = _written(writer, [(LAG, [Point(labels(topic='q"\\\n', group="g"), 3)])])
    assert lines == [
        "# HELP lag_milliseconds Help.",
        "# TYPE lag_milliseconds gauge",
        'lag_milliseconds{otel_scope_name="broker-meter",cluster="C",group="g",node_id="a",'
        'topic="q\\"\\\\\\n"} 3',
    ]


def test_a_spread_is_told_as_a_running_sum() -> None:
    times = Histogram((0.1, 1))
    for value in (0.1, 0.5, 7.0):
        times.add(value)
    lines = _written(TextWriter("s", ()), [(TOOK, [times.spread()])])
    assert [line.partition("} ")[2] for line in lines[2:]] == ["1", "2", "3", "3", "7.6"]
    assert 'le="0.1"' in lines[2]
    assert 'le="+Inf"' in lines[4]


def test_a_counter_of_open_metrics_has_no_total_in_its_type() -> None:
    lines = _written(TextWriter("s", ()), [(SENT, [Point((), 1)])], is_open=True)
    assert lines[1:] == ["# TYPE sent counter", 'sent_total{otel_scope_name="s"} 1']
    assert "# TYPE otel_scope info" in scope_lines(["s"], is_open=True)


def test_beyond_the_limit_values_are_told_together() -> None:
    writer = TextWriter("s", (), limit=2)
    points = [Point(labels(topic=f"t{n}"), 10 + n) for n in range(5)]
    lines = _written(writer, [(SENT, points)])
    assert lines[-1] == 'sent_total{otel_scope_name="s",topic="__other__"} 39'
    assert len(lines) == 5
    assert writer.rest() == [
        'contrail_metrics_dropped_series{otel_scope_name="s",family="sent_total"} 3'
    ]


def test_bare_names_are_told_when_asked_for() -> None:
    lines = _written(TextWriter("s", (), bare_names=True), [(LAG, [Point((), 1)])])
    assert lines[-1] == 'lag{otel_scope_name="s"} 1'


def test_numbers() -> None:
    assert [number(v) for v in (7, 7.0, 0.25, float("inf"), float("nan"), 1e300)] == [
        "7", "7.0", "0.25", "+Inf", "NaN", "1e+300",
    ]  # fmt: skip


def test_settings_are_read_by_the_keys_of_the_original() -> None:
    found = read_metrics(
        {
            "metricsExporterType": "PROM",
            "metricsLabel": "zone:a, team:b",
            "metricsInDelta": "true",
            "metricsGrpcExporterHeader": "api-key:x",
        }
    )
    assert found.exporter is Exporter.PROM
    assert found.common_labels() == {"zone": "a", "team": "b", "aggregation": "delta"}
    assert found.headers() == {"api-key": "x"}
    assert MetricsSettings().exporter is Exporter.DISABLE


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("metricsExporterType", "STATSD", "PROM"),
        ("metricsLabel", "zone", "colon"),
        ("metricsLabel", "a-b:c", "name of a label"),
        ("metricsPromExporterPort", "70000", "65535"),
    ],
)
def test_a_wrong_value_is_named(key: str, value: str, said: str) -> None:
    with pytest.raises(ConfigError, match=key) as caught:
        read_metrics({key: value})
    assert said in str(caught.value)
