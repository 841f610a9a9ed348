"""Where the Monty worker's files lie inside the tool-lite box."""

LAUNCHER = "/run/launcher"
BINARY = "/run/monty"
LOCK = "/run/lock.so"
