"""Words as search and ranking compare them: one home for the index, `packet search` and `ask`."""
