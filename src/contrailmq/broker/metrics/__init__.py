"""The broker's figures for Prometheus and OpenTelemetry, under the names of RocketMQ 5.2.0."""
