"""Model servers: CORE's one door to a language model, and nothing behind it but text."""
