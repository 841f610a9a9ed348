"""Executors that wait for work under `serve`: kept warm, pushed new rules, read back."""
