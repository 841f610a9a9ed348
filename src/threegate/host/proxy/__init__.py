"""The proxy as the host runs it: sockets, supervisor, log entries, and the proxy as a service."""
