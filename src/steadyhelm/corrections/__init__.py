"""Classify a user's replies, and attribute corrections to the turns they are about.

The cues and rules are data: see `patterns/` and `steadyhelm.lexicons`.
"""
