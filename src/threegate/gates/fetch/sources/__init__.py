"""What the scholarly sources answer, read into one shape.  Pure functions: no I/O, no clock."""
