"""Convert public benchmarks to run files."""
