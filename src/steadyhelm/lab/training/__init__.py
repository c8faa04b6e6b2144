"""Fit and check the weights of the classifier of user replies."""
