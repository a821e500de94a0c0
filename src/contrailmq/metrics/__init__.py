"""Figures of a process for Prometheus and OpenTelemetry: names, values, and how they are told."""
