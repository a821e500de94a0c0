"""Store directories read without a broker: views, checks, dumps."""
