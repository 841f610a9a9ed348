"""Gate 2, FETCH: retrieves.  Not built yet."""
