"""What the agent is meant to do, how far it is, and whether it still knows."""
