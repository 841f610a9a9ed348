"""The host's side of a question: selects texts, starts CORE, checks its answer and stores it."""
