"""The host's side of FETCH: what is asked, under which authority, and how packets are stored."""
