"""Consumers: push (concurrent, ordered, broadcast), pull, and lite pull."""
