"""Gate 3, TOOL-EXEC: executes.  Not built yet."""
