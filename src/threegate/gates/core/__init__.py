"""Gate 1, CORE: reasons."""
