"""What the broker does on a request, one module per family."""
