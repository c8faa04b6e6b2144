"""Measure how accurate the detectors are, on labelled and on recorded runs."""
