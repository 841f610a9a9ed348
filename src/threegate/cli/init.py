"""`threegate init`: a new workspace and the key that signs for it."""

import argparse

from threegate.cli.grammar import CommandGroup
from threegate.host.command_context import Context

_ABOUT = """\
Makes the directory, copies the default policy into it and signs that policy with your SSH
key, which becomes the first signer: from then on a change of policy or of signers needs a
signature by a current one. The key stays where it is, outside the workspace. Without --key
the key you signed with last is used; only if there is none, a new one is made in your
configuration directory. The answer says which key it is, and why."""


def add(commands: CommandGroup) -> None:
    """Add the command."""
    parser = commands.command(
        "init",
        "make a workspace",
        run=run,
        about=_ABOUT,
        examples=("init research", "init . --key ~/.ssh/id_ed25519", "init lab --key agent"),
        workspace=False,
    )
    parser.add_argument("directory", nargs="?", default=".", metavar="DIR", help="where; else here")
    parser.add_argument(
        "--key", metavar="FILE", help="an ed25519 key: a file, `agent`, or `new` to make one"
    )
    parser.add_argument("--name", metavar="PRINCIPAL", help="the signer's name; else `operator`")


def run(args: argparse.Namespace, context: Context) -> int:
    """Make the workspace."""
    from threegate.host.keys import operator
    from threegate.host.keys.signatures import SshKeygenSigner, key_strength
    from threegate.host.settings import unix_now
    from threegate.host.workspace import setup

    tools = context.tools()
    root = (context.settings.cwd / args.directory).resolve()
    principal = args.name or operator.DEFAULT_PRINCIPAL
    setup.prepare_root(root)
    chosen = operator.choose_key(context.settings, tools, chosen=args.key, workspace=root)
    signer = SshKeygenSigner(chosen.key, root, tools, context.out.note)
    marker = setup.init_workspace(
        root, operator=chosen, principal=principal, signer=signer, clock=unix_now
    )
    operator.remember(context.settings, chosen)
    fields = {
        "workspace": str(root),
        "id": marker.id,
        "signer": principal,
        "fingerprint": chosen.public.fingerprint,
        "key": str(chosen.key),
        "key_made": chosen.made_now,
        "key_source": chosen.source,
        "key_strength": key_strength(chosen.key, tools),
    }
    if args.json:
        context.out.document(fields)
        return 0
    _tell(context, fields, chose=args.key is not None)
    return 0


def _tell(context: Context, fields: dict[str, object], *, chose: bool) -> None:
    pairs = [(name, str(fields[name])) for name in ("workspace", "id", "signer", "fingerprint")]
    told = f"{fields['key']} ({fields['key_strength']}, {fields['key_source']})"
    context.out.fields([*pairs, ("key", told)])
    if not chose and not fields["key_made"]:
        context.out.note("`--key new` makes another key, `--key FILE` takes one you name")
    if fields["key_strength"] == "plain-file":
        context.out.note("the key has no passphrase: anyone who can read its file can sign for you")
    context.out.note("read the files in policy/, then `threegate status`")
