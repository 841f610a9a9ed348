"""The embedded server: one model file, in a box without network."""
