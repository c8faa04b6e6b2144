"""Replay recorded runs under a policy, and count what it would have done."""
