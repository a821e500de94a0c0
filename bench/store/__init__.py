"""The store alone."""
