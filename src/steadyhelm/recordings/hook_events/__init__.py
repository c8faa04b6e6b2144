"""Read the hook events of coding agents, and write responses in their formats."""
