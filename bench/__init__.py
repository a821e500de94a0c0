"""Benchmarks, each one JSON line a case; ``python -m bench compare`` runs brokers side by side."""
