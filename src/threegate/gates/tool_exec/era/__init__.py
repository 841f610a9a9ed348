"""The heavy lane: one approved request in one microVM.  See ../README.md."""
