"""The few loops over bytes that are compiled; each also runs as plain Python."""
