"""The destinations of records: one plug-in each."""
