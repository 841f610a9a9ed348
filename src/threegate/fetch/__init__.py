"""Gate 2, FETCH: retrieves.  No command uses it yet."""
