"""Settings of the process: read once in `main` and passed down."""

import os
import pwd
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Settings:
    """Places and identity of the user who runs this process."""

    config_home: Path  # keys and credentials, never inside a workspace
    state_home: Path  # budgets, shared by all workspaces of the user
    workspace: Path | None  # THREEGATE_WORKSPACE
    cwd: Path
    cache_home: Path = Path("/nonexistent")  # models, shared by all workspaces of the user
    runtime_home: Path | None = None  # as named; `sandbox.runtime` decides whether it is used

    @property
    def seals(self) -> Path:
        """Where seals of derived files lie: outside every workspace."""
        return self.state_home / "derived"

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> "Settings":
        """Read the environment; the only place that does."""
        home = _absolute(environ.get("HOME"), _home_of_account())
        config = _absolute(environ.get("XDG_CONFIG_HOME"), home / ".config")
        state = _absolute(environ.get("XDG_STATE_HOME"), home / ".local" / "state")
        cache = _absolute(environ.get("XDG_CACHE_HOME"), home / ".cache")
        chosen = environ.get("THREEGATE_WORKSPACE")
        return cls(
            config_home=config / "threegate",
            state_home=state / "threegate",
            workspace=Path(chosen) if chosen else None,
            cwd=Path(os.path.abspath(".")),
            cache_home=cache / "threegate",
            runtime_home=_named(environ.get("XDG_RUNTIME_DIR")),
        )


def _absolute(named: str | None, otherwise: Path) -> Path:
    # Below the current directory every command would know another key and other budgets;
    # the XDG specification calls a relative path invalid, to be ignored.
    return Path(named) if named and named.startswith("/") else otherwise


def _home_of_account() -> Path:
    # A service or `env -i` has no HOME: a key below / would be another one than the user's own.
    try:
        return _absolute(pwd.getpwuid(os.getuid()).pw_dir, Path("/"))
    except KeyError:  # an account without an entry
        return Path("/")


def _named(path: str | None) -> Path | None:
    return Path(path) if path and path.startswith("/") else None


def unix_now() -> int:
    """Return the time in whole seconds."""
    return int(time.time())
