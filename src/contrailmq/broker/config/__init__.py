"""Settings of a broker: keys, files, changes while it runs."""
