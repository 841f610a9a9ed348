"""Purposes of proxies: each proxy has one, and only the rules of that purpose."""

from typing import Final

from threegate.base.schema import Pattern

PACKETS: Final = "packets"  # FETCH: the hosts of fetch.policy.md
MODEL: Final = "model"  # CORE's model on another machine: the one host core.policy.md names
RUNS: Final = "runs"  # the gateway of one approved run: hosts its request lists, policy allowing
DOWNLOADS: Final = "downloads:"  # set-up commands: one named list of fetch.policy.md
PURPOSE: Final = Pattern(
    rf"{PACKETS}|{MODEL}|{RUNS}|{DOWNLOADS}[a-z][a-z0-9_-]{{0,63}}", "the purpose of a proxy"
)


def downloads(name: str) -> str:
    """Return the purpose of the named list of downloads."""
    return f"{DOWNLOADS}{name}"


def download_list(purpose: str) -> str | None:
    """Return the name of the list of downloads a purpose stands for; None for any other."""
    return purpose.removeprefix(DOWNLOADS) if purpose.startswith(DOWNLOADS) else None
