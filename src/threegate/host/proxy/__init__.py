"""The proxy as the host runs it: its socket, its supervisor, its log entries."""
