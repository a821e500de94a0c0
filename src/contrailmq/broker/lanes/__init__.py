"""The broker's side of the compiled fast paths."""
