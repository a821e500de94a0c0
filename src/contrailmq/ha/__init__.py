"""Replication: a primary sends its log, replicas take it, both ways byte-compatible with Java's."""
