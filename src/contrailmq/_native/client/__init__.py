"""Loops of producers and consumers."""
