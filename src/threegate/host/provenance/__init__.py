"""Provenance of artifacts: graphs, headlines, retraction, and the texts that can be quoted."""
