"""Alerts: the message for each service, sending and retrying, and the addresses that are refused."""
