"""Classes of the source designs that the live engine does not use."""
