"""HTTP/2 as gRPC uses it: connections, a server, a client. It knows nothing of RocketMQ."""
