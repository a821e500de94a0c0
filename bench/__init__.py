"""Benchmarks, one JSON line per case: ``python -m bench`` lists them."""
