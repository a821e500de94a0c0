"""The web console: pages over ``AdminClient`` for one cluster, ours or Java's."""
