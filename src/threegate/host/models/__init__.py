"""Models on this machine: which there are, where they lie, who serves them."""
