"""The source designs' own classes that the live engine does not need."""
