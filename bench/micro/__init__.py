"""Single loops."""
