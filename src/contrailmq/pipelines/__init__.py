"""Ready pipelines over topics, store directories and archives, on Spark: see docs/pipelines.md."""
