"""What turns a framework's calls, or somebody's recorded files, into events: one file each."""
