"""The gRPC door of a broker: the service of ``contrailmq.grpc`` over this broker's own parts."""
