"""The host's side of FETCH: what is asked, by whose leave, and what becomes of the answers."""
