"""Shared basics of every package: canonical JSON, errors, text, `Untrusted`, shapes and frames."""
