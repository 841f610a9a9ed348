"""Gate 3, TOOL-EXEC: executes what a human approved.  See README.md."""
