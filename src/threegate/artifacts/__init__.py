"""What crosses a gate: six formats, each parsed strictly and spelled in exactly one way."""
