"""What ``contrail doctor`` looks at."""
