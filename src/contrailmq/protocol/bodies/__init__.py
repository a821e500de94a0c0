"""Typed JSON bodies, one module per family."""
