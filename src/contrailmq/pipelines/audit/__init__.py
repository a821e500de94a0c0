"""The audit pipeline: tables, page, charts."""
