"""Measure how often findings are right on labelled runs."""
