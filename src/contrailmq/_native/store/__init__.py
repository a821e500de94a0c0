"""Loops over the bytes of a store."""
