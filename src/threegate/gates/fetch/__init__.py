"""Gate 2, FETCH: retrieves."""
