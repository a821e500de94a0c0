"""Whole topics at once: ranges of queues, store directories and batches of rows, blocking."""
