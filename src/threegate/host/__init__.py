"""The human's side: command line, workspace life, keys."""
