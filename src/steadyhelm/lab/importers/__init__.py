"""Turn public benchmarks into run files."""
