"""Command lines, one module a noun."""
