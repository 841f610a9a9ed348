"""`threegate key list|add|rotate|revoke` (wired when the key ring is there)."""

from threegate.host.grammar import Group


def add(commands: Group) -> None:
    """Add the group."""
