"""`threegate withdraw|forget|backup|restore|upgrade` (wired when they are there)."""

from threegate.host.grammar import Group


def add(commands: Group) -> None:
    """Add the commands."""
