"""The commands of mqadmin under their own names, with their options and output columns."""
