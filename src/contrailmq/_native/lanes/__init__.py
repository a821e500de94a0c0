"""Fast paths of the broker: sends, batches, pulls."""
