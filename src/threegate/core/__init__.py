"""Gate 1, CORE: reasons.  Not built yet."""
