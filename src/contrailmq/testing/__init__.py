"""Simulated worlds, throw-away clusters and fault switches, for our tests and yours."""
