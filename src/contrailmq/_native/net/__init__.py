"""Reading sockets and finding requests in what was read."""
