"""The handoff: states are directories, transitions are atomic, durable and audited."""
