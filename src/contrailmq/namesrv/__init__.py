"""The name server: which brokers serve which topics."""
