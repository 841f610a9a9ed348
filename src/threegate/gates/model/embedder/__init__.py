"""Vectors of texts: MiniLM in plain arithmetic, in a box with two files and nothing else."""
