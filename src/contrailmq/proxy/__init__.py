"""``contrail proxy``: the gRPC service for a whole cluster, Java brokers included."""
