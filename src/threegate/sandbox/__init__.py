"""Confinement of gates: profiles, lock, launch, proofs."""
