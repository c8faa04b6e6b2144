"""Alerts on their way out: what each service is sent, how it gets there, and where it must never go."""
