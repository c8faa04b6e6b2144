"""Plant loops and healthy stretches of named classes into recorded runs, to measure detectors by class."""
