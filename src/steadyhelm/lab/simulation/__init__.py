"""Simulate a policy on recorded runs."""
