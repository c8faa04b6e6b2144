"""What live adapters share: run starts, tables of paused runs, watched objects and streams, edits."""
