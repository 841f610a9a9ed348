"""The human's yes or no: what is shown of a request, and what follows from the answer."""
