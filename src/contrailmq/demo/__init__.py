"""A tour of everything in two minutes: ``contrail demo`` or ``make demo``."""
