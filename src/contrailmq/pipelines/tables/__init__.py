"""Topics into lakehouse tables: Delta and Iceberg."""
