"""The context of a command: settings, environment, output, and the workspace on request."""

import argparse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from threegate.base.errors import PolicyDenied, StorageFailed, UsageError
from threegate.host.output import Output
from threegate.host.settings import Settings

if TYPE_CHECKING:  # a command pays only for what it uses
    from threegate.host.keys.signatures import SshKeygenSigner, SshTools
    from threegate.host.workspace.index import Index
    from threegate.host.workspace.log_signatures import KeptCheckpoint
    from threegate.host.workspace.workspace import Workspace

SAID_NO: Final = "TG-ASK-002"


@dataclass(frozen=True, slots=True)
class Context:
    """One run of the command line."""

    settings: Settings
    environ: Mapping[str, str]
    out: Output
    stdin: BinaryIO

    def root(self, args: argparse.Namespace) -> Path:
        """Return the directory of the workspace the command is about."""
        from threegate.host.workspace.workspace import find_root

        chosen: str | None = args.workspace
        return find_root(self.settings, None if chosen is None else Path(chosen))

    @contextmanager
    def workspace(
        self, args: argparse.Namespace, *, reading: bool = False
    ) -> Iterator["Workspace"]:
        """Open the workspace for one command; one that only reads may be on a read-only disk."""
        from threegate.host.workspace.workspace import open_workspace, unfinished

        ws = open_workspace(self.root(args), seals=self.settings.seals, reading=reading)
        try:
            for line in unfinished(ws.store):
                self.out.note(line)
            yield ws
        finally:
            ws.close()

    @contextmanager
    def index(self, ws: "Workspace") -> Iterator["Index"]:
        """Open the search index, brought up to date."""
        import sqlite3

        from threegate.host.workspace.index import FILE, Index

        index = Index(ws.store, ws.seals)
        try:
            with self.out.progress("indexing, log entry", ws.store.journal.log.head.seq) as show:
                index.catch_up(lambda done, _: show(done))
            if index.rebuilt:
                self.out.note(f"{FILE} was rebuilt: {index.rebuilt}")
            yield index
        except sqlite3.DatabaseError as exc:
            hint = f"delete {FILE} in the workspace; it is built again"
            raise StorageFailed(f"{FILE} cannot be used", hint=hint) from exc
        finally:
            index.close()

    def agree(self, args: argparse.Namespace, question: str, *, undone: str) -> None:
        """Return if the operator says yes, now or with `--yes`.

        Raises `WaitingForHuman` without a terminal to ask on, `PolicyDenied` for a no.
        """
        if not args.yes and not self.out.confirm(question):
            raise PolicyDenied(f"{undone}: the operator said no", code=SAID_NO, hint="")

    def checkpoints(self, args: argparse.Namespace) -> "list[KeptCheckpoint]":
        """Return the checkpoint from elsewhere that the command names, if it names one."""
        from threegate.host.workspace.log_signatures import read_kept

        if args.signature and not args.checkpoint:
            raise UsageError("--signature needs the --checkpoint it signs")
        if not args.checkpoint:
            return []
        cwd = self.settings.cwd
        signature = cwd / args.signature if args.signature else None
        kept = read_kept(cwd / args.checkpoint, signature)
        if kept.signature is None:
            self.out.note("the checkpoint has no signature: it is compared as it is")
        return [kept]

    def tools(self) -> "SshTools":
        """Return OpenSSH as found on this machine."""
        from threegate.host.keys.signatures import SshTools

        return SshTools.find(self.environ)

    def signer(self, args: argparse.Namespace, ws: "Workspace") -> "SshKeygenSigner":
        """Return the operator's signer for an open workspace."""
        from threegate.host.keys.operator import signer_for

        return signer_for(
            self.settings,
            self.tools(),
            chosen=args.key,
            workspace=ws.root,
            notify=self.out.note,
            may_sign=ws.may_sign,
        )
