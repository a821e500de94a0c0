"""The message store: commit log, consume queues, index. It knows no network."""
