"""Where records go: one plug-in per destination."""
