"""gRPC: HTTP/2, the messages of RocketMQ's 5.x service, and its calls."""
