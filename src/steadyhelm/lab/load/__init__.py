"""Simulated agents that record to a store, to measure what it takes: see `steadyhelm lab simulate-load`."""
