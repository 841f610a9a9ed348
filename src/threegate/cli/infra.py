"""`threegate infra`: containers, firewall, Squid and services as the policy in force says."""

import argparse
from typing import TYPE_CHECKING

from threegate.cli.grammar import CommandGroup
from threegate.host.command_context import Context

if TYPE_CHECKING:
    from threegate.host.deploy.place import Place

_ABOUT = """\
Makes the files of the three levels around FETCH from the policy in force: containers, the host's
firewall, and Squid or our own proxy as a service. Nothing is installed or started;
docs/deployment.md says how, and what each level stops. The machine's accounts and addresses
go into DIR/place.json, and the next write takes them from there."""
_CHECK = """\
Compares the files in DIR with the policy in force and names those that differ."""


def add(commands: CommandGroup) -> None:
    """Add the commands."""
    group = commands.group("infra", "files of the three levels around FETCH")
    write = group.command(
        "write",
        "write containers, firewall and services for the policy in force",
        run=run_write,
        about=_ABOUT,
        examples=(
            "infra write infra",
            "infra write infra --uids proxy=990,owner=1000 --resolver 192.0.2.53",
        ),
    )
    write.add_argument("directory", metavar="DIR", help="where to; made if it is not there")
    write.add_argument("--uids", metavar="LIST", help="accounts: owner=1000,proxy=990,...")
    write.add_argument(
        "--resolver", metavar="ADDRESS", action="append", help="a name server; may be repeated"
    )
    write.add_argument(
        "--own", metavar="ADDRESS", action="append", help="an address of this machine; repeatable"
    )
    check = group.command(
        "check",
        "compare files with the policy in force",
        run=run_check,
        about=_CHECK,
        examples=("infra check infra", "infra check infra --json"),
    )
    check.add_argument("directory", metavar="DIR", help="where `infra write` wrote them")


def run_write(args: argparse.Namespace, context: Context) -> int:
    """Write what differs, and say what that was."""
    from threegate.host.deploy.files import generate, write

    where = _place(args, context)
    with context.workspace(args) as ws:
        files = generate(ws.bundle, where)
    changed = write(context.settings.cwd / args.directory, files)
    if args.json:
        context.out.document({"files": sorted(files), "written": changed})
        return 0
    for name in changed:
        context.out.line(name)
    context.out.note(f"{len(changed)} of {len(files)} files written")
    return 0


def _place(args: argparse.Namespace, context: Context) -> "Place":
    from threegate.host.deploy.files import read_place
    from threegate.host.deploy.place import FILE, Place, addresses_of, uids_of

    directory = context.settings.cwd / args.directory
    known = read_place(directory) if (directory / FILE).is_file() else Place()
    return Place(
        uids_of(args.uids.split(",")) if args.uids else known.uids,
        addresses_of(args.resolver) if args.resolver else known.resolvers,
        addresses_of(args.own) if args.own else known.own,
    )


def run_check(args: argparse.Namespace, context: Context) -> int:
    """Compare the files with the policy."""
    from threegate.host.deploy.files import refuse_differences

    with context.workspace(args, reading=True) as ws:
        count = refuse_differences(context.settings.cwd / args.directory, ws.bundle)
    if args.json:
        context.out.document({"files": count, "same": True})
    else:
        context.out.line(f"{count} files are what the policy in force says")
    return 0
