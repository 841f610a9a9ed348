"""Files of the operator become research packets."""
