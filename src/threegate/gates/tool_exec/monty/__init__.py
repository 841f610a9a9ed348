"""The lite lane: one approved request, one fresh Monty worker, one result."""
