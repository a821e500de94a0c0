"""Whole brokers under load, beside the Java one."""
