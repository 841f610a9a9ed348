"""The host's side of asking: selects, starts CORE, checks what it says, stores it."""
