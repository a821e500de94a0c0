"""What the name server does with each request code, by family."""
