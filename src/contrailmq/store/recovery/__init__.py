"""What a start does with files that another process left."""
