"""What every package may use: canonical JSON, errors, text, `Untrusted`, shapes and frames."""
