"""Escape attempts: what an owned gate would try, and how a machine is attacked with them."""
