"""HTTP/2: header compression, and the walk over frames."""
