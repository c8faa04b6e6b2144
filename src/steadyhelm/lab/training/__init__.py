"""Train the reply classifier on labelled replies."""
