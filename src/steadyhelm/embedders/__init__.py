"""Embedders, which measure the similarity of two texts: `idf` (the default) and `minilm` (an extra)."""
