"""Coverage-guided fuzzing of every parser; `make fuzz` runs it."""
