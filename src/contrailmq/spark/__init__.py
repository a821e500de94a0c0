"""Topics and store directories as Spark DataFrames."""
