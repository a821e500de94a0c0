"""Pulls of Spark tasks, and records as Arrow columns."""
