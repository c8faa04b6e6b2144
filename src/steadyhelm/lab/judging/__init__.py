"""What a judge changes, measured on labelled runs and replies."""
