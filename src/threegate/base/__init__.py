"""What every package may use: canonical JSON, errors, text escaping, `Untrusted`, shapes, frames."""
