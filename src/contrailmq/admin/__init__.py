"""Typed administration calls and the command line."""
