"""What to do about what was noticed: plain functions of findings, incidents and settings."""
