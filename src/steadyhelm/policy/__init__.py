"""Which response drift gets: plain functions of findings, incidents and settings."""
