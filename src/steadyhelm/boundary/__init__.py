"""What all adapters share: where a framework's agent meets its model, its tools and its user."""
