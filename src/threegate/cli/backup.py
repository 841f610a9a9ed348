"""`threegate backup|restore|upgrade`: keeping a workspace over time."""

import argparse

from threegate.cli.grammar import CommandGroup
from threegate.host.command_context import Context
from threegate.host.output import counted

_BACKUP = """\
Verifies the log and writes the whole workspace into one file, without keys. Artifacts that were
forgotten are not in it; an older backup still has them."""
_RESTORE = """\
Makes a new workspace from a backup, or nothing at all: log and files are verified before the
workspace exists. Somebody else's backup is consistent in itself, so look at the signers it
names, or give a checkpoint you kept elsewhere."""
_UPGRADE = """\
Brings an older workspace to the version of this program. Stored artifacts are never rewritten;
after a crash run it again."""


def add(commands: CommandGroup) -> None:
    """Add the commands."""
    backup = commands.command(
        "backup",
        "write the workspace into one file",
        run=run_backup,
        about=_BACKUP,
        examples=("backup /media/usb/research.tgbackup",),
    )
    backup.add_argument("file", metavar="FILE", help="the new file, outside the workspace")
    restore = commands.command(
        "restore",
        "make a workspace from a backup",
        run=run_restore,
        about=_RESTORE,
        examples=(
            "restore /media/usb/research.tgbackup research-again",
            "restore research.tgbackup again --checkpoint /media/usb/checkpoint-412.txt",
        ),
        workspace=False,
    )
    restore.add_argument("file", metavar="FILE", help="the backup")
    restore.add_argument("directory", metavar="DIR", help="the new workspace")
    restore.add_argument("--checkpoint", metavar="FILE", help="a checkpoint from elsewhere")
    restore.add_argument("--signature", metavar="FILE", help="its signature; else FILE.sig")
    commands.command(
        "upgrade",
        "bring an older workspace up to date",
        run=run_upgrade,
        about=_UPGRADE,
        examples=("upgrade",),
    )


def run_backup(args: argparse.Namespace, context: Context) -> int:
    """Write a backup."""
    from threegate.host.workspace.backup import backup

    with context.workspace(args, reading=True) as ws:
        done = backup(ws, context.settings.cwd / args.file, progress=context.out.progress)
    size = done.checkpoint.size
    if args.json:
        counts = {"entries": size, "files": done.files, "bytes": done.bytes}
        context.out.document({"path": str(done.path), **counts})
        return 0
    entries, files = counted(size, "entry", "entries"), counted(done.files, "file")
    context.out.line(f"backup of {entries}, {files}, {done.bytes} bytes: {done.path}")
    return 0


def run_restore(args: argparse.Namespace, context: Context) -> int:
    """Make a workspace from a backup."""
    from threegate.host.policy.keyring import state_of
    from threegate.host.settings import unix_now
    from threegate.host.workspace.restore import restore

    kept = context.checkpoints(args)
    cwd = context.settings.cwd
    root = (cwd / args.directory).absolute()
    done = restore(cwd / args.file, root, checkpoints=kept, progress=context.out.progress)
    signers = [f"{entry.key.fingerprint} {entry.principal}" for entry in done.signers]
    states = [state_of(entry, unix_now()) for entry in done.signers]
    if args.json:
        counts = {"entries": done.checkpoint.size, "files": done.files, "made": done.made}
        place = {"workspace": str(done.root), "id": done.workspace}
        context.out.document({**place, **counts, "signers": signers})
        return 0
    entries = counted(done.checkpoint.size, "entry", "entries")
    context.out.fields(
        [
            ("workspace", str(done.root)),
            ("id", done.workspace),
            ("restored", f"{entries}, {counted(done.files, 'file')}, backed up {done.made}"),
            *((f"signer, {state}", name) for state, name in zip(states, signers, strict=True)),
        ]
    )
    context.out.note("are these the signers you know? then continue with `threegate status`")
    return 0


def run_upgrade(args: argparse.Namespace, context: Context) -> int:
    """Bring a workspace up to date."""
    from threegate.host.workspace.setup import upgrade

    done = upgrade(context.root(args), progress=context.out.note)
    if args.json:
        steps = {"before": done.before, "after": done.after, "steps": list(done.steps)}
        context.out.document(steps)
    elif done.before == done.after and not done.steps:
        context.out.line(f"nothing to do: version {done.after}")
    else:
        context.out.line(f"upgraded from version {done.before} to {done.after}")
    return 0
