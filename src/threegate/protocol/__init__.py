"""Messages between the host and a gate: one spelling each, parsed strictly on both sides."""
