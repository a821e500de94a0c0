"""Spans of producers and consumers in one trace, client metrics, figures pushed to a collector."""

from __future__ import annotations

import asyncio
from concurrent import futures
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs the extra otel")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from contrailmq import Message, Producer, PushConsumer, ReceivedMessage
from contrailmq.otel import Telemetry
from contrailmq.up import local_cluster


def test_a_trace_goes_on_in_the_consumer(tmp_path: Path) -> None:
    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    telemetry = Telemetry(tracer_provider=tracers, meter_provider=MeterProvider([reader]))
    seen: list[ReceivedMessage] = []

    async def scenario() -> None:
        async with local_cluster(str(tmp_path), {"mappedFileSizeCommitLog": "4194304"}) as cluster:
            names = cluster.namesrv_address
            done = asyncio.Event()

            async def handle(message: ReceivedMessage) -> None:
                seen.append(message)
                if len(seen) == 3:
                    done.set()

            async with telemetry.producer(Producer("pg", name_servers=names)) as producer:
                await producer.send(Message("t", body=b"one", tags="paid", keys=["k"]))
                await producer.send_batch([Message("t", body=b"2"), Message("t", body=b"3")])
                async with PushConsumer(
                    "g", topics={"t": "*"}, name_servers=names, start_from="first",
                    handler=telemetry.handler(handle, group="g"),
                ):  # fmt: skip
                    async with asyncio.timeout(30):
                        await done.wait()
                    await asyncio.sleep(0)

    asyncio.run(scenario())
    found = spans.get_finished_spans()
    sends = [span for span in found if span.name == "send t"]
    works = [span for span in found if span.name == "process t"]
    assert (len(sends), len(works)) == (2, 3)
    assert all("traceparent" in message.properties for message in seen)
    first = next(w for w in works if w.attributes["messaging.message.body.size"] == 3)
    assert first.parent.span_id == sends[0].context.span_id
    assert first.context.trace_id == sends[0].context.trace_id
    assert [link.context.span_id for link in first.links] == [sends[0].context.span_id]
    assert first.kind.name == "CONSUMER"
    assert dict(sends[0].attributes) | {"server.address": ""} == {
        "messaging.system": "rocketmq",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "t",
        "messaging.destination.partition.id": sends[0].attributes[
            "messaging.destination.partition.id"
        ],
        "messaging.message.id": first.attributes["messaging.message.id"],
        "messaging.message.body.size": 3,
        "messaging.rocketmq.client_group": "pg",
        "messaging.rocketmq.message.tag": "paid",
        "messaging.rocketmq.message.keys": ("k",),
        "server.address": "",
    }
    data = reader.get_metrics_data()
    values = {
        metric.name: sum(
            getattr(p, "value", getattr(p, "count", 0)) for p in metric.data.data_points
        )
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
    }
    assert values == {
        "messaging.client.sent.messages": 3,
        "messaging.client.consumed.messages": 3,
        "messaging.client.operation.duration": 2,
        "messaging.process.duration": 3,
    }


def test_a_failure_is_in_the_span(tmp_path: Path) -> None:
    spans = InMemorySpanExporter()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    telemetry = Telemetry(tracer_provider=tracers, meter_provider=MeterProvider())
    with pytest.raises(ValueError), telemetry.sending(Message("t", body=b"")):
        raise ValueError("no")
    [span] = spans.get_finished_spans()
    assert span.status.status_code.name == "ERROR"


@pytest.mark.slow
def test_a_collector_gets_the_figures_of_a_broker(tmp_path: Path) -> None:
    import grpc
    from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as pb
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import (
        MetricsServiceServicer,
        add_MetricsServiceServicer_to_server,
    )

    got: list[Any] = []

    class Collector(MetricsServiceServicer):  # type: ignore[misc]
        def Export(self, request: Any, context: Any) -> Any:
            got.append((request, dict(context.invocation_metadata())))
            return pb.ExportMetricsServiceResponse()

    server = grpc.server(futures.ThreadPoolExecutor(2))
    add_MetricsServiceServicer_to_server(Collector(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    given = {
        "mappedFileSizeCommitLog": "4194304",
        "metricsExporterType": "OTLP_GRPC",
        "metricsGrpcExporterTarget": f"http://127.0.0.1:{port}",
        "metricsGrpcExporterHeader": "Api-Key:secret",
        "metricGrpcExporterIntervalInMills": "100",
        "metricsInDelta": "true",
    }

    async def scenario() -> None:
        async with local_cluster(str(tmp_path), given) as cluster:
            async with Producer("pg", name_servers=cluster.namesrv_address) as producer:
                await producer.send(Message("t", body=b"one"))
            loop, pushed = asyncio.get_running_loop(), asyncio.Event()
            before = len(got)

            def look() -> None:
                if len(got) >= before + 3:
                    pushed.set()
                else:
                    loop.call_later(0.05, look)

            look()
            async with asyncio.timeout(30):
                await pushed.wait()

    try:
        asyncio.run(scenario())
    finally:
        server.stop(None)
    assert got[0][1]["api-key"] == "secret"
    sent = {}
    for request, _ in got:
        for scope in request.resource_metrics[0].scope_metrics:
            for metric in scope.metrics:
                for point in metric.sum.data_points:
                    labels = {a.key: a.value.string_value for a in point.attributes}
                    if metric.name == "rocketmq_messages_in_total" and labels["topic"] == "t":
                        assert labels["aggregation"] == "delta"
                        assert metric.sum.aggregation_temporality == 1  # delta
                        value = point.as_int or point.as_double
                        sent[metric.name] = sent.get(metric.name, 0) + value
    assert sent == {"rocketmq_messages_in_total": 1}
