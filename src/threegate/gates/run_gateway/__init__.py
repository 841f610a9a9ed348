"""The gateway of an approved run: asks what its request lists, and nothing else."""
