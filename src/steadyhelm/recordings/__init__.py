"""Read runs that were recorded elsewhere: run files, transcripts, message lists and spans."""
