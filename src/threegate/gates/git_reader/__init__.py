"""Helper of imports: reads objects of a git repository."""
