"""The operator's decision: what is shown of a request, and what follows from the answer."""
