"""The engine: one run (`session`), many runs (`monitor`), the one queue and writer (`dispatch`)."""
