"""The commands, one small module per group; each imports what it needs when it runs."""
