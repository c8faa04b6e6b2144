"""Ways to say how near two texts are: `idf` (ours, the default) and `minilm` (an extra)."""
