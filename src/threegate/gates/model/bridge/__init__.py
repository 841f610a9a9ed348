"""The bridge: to the operator's own model server, on loopback."""
