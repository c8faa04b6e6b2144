"""Classify a user's replies, attribute corrections to the turns they are about, and forecast them.

The cues and rules are data: see `patterns/` and `steadyhelm.lexicons`.
"""
