"""Hooks of coding agents: what each of them tells about a step, and how each wants to be answered."""
