"""The gates a question needs, as they are on this machine: each in its box."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from threegate.host.ask.core_session import Say, Tell, serving
from threegate.host.command_context import Context
from threegate.host.fetch.credentials import model_credential
from threegate.host.models.codeless import noted_by
from threegate.host.models.remote import Leaving
from threegate.host.proxy.log_entries import Noter
from threegate.host.request.expressible import Ask, asking
from threegate.host.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Boxed:
    """The real `Sides` of `answering`."""

    ws: Workspace
    models: Path  # where model files lie
    runtime: Path | None
    tell: Tell
    noter: Noter
    # What a remote model's host is shown; without it nothing leaves for any.
    key: Callable[[str], str | None] | None = None

    def serving(self) -> AbstractContextManager[Say]:
        """Return CORE with its model, once that is loaded."""
        leaving = None
        if self.key is not None:
            leaving = Leaving(self.ws.root, self.key, self.noter)
        return serving(
            self.ws.bundle,
            self.models,
            self.runtime,
            self.tell,
            noted=noted_by(self.noter),
            leaving=leaving,
        )

    def asking(self) -> AbstractContextManager[Ask]:
        """Return the lite lane, to check programs; started for the first one."""
        return asking(self.ws)


def gates_of(context: Context, ws: Workspace, tell: Tell, noter: Noter) -> Boxed:
    """Return how CORE and the model of the policy are reached, each in its sandbox."""
    settings = context.settings
    models, runtime = settings.cache_home / "models", settings.runtime_home
    return Boxed(
        ws, models, runtime, tell, noter, lambda host: model_credential(settings, ws.bundle, host)
    )
