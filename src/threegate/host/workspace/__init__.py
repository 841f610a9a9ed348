"""A workspace on disk: creation, backup, index, removal and verification."""
