"""What the loop detectors share: how a step is read, compared and reported."""
