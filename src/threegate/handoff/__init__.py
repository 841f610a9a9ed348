"""Where artifacts cross: states are directories, transitions are atomic, durable and audited."""
