"""`threegate result export`: the files that a run left."""

import argparse

from threegate.cli.grammar import CommandGroup
from threegate.host.command_context import Context

_EXPORT = """\
Writes every file that the run left into DIRECTORY, which is made if need be, readable by you
alone. Either all are written or none; a file that exists is not replaced without --force. Code
made these files and nobody checked them: open them as you would open a stranger's."""


def add(group: CommandGroup) -> None:
    """Add the commands that only results have."""
    parser = group.command(
        "export",
        "write the files that a run left",
        run=run_export,
        about=_EXPORT,
        examples=(
            "result export res-0123456789ab plots",
            "result export res-0123456789ab . --json",
        ),
    )
    parser.add_argument("id", metavar="ID", help="the id, or its start with 12 digits or more")
    parser.add_argument("directory", metavar="DIRECTORY", help="where the files go")
    parser.add_argument("--force", action="store_true", help="replace existing files")


def run_export(args: argparse.Namespace, context: Context) -> int:
    """Write the files."""
    from threegate.artifacts.ids import prefix_of
    from threegate.base.errors import UsageError
    from threegate.base.text import quote
    from threegate.host.report.outputs import export_files, plain_files
    from threegate.host.workspace.places import refuse_absent, resolve
    from threegate.policy.leaves import sized

    directory = context.settings.cwd / args.directory
    with context.workspace(args) as ws:
        result_id = resolve(ws.store, args.id)
        if prefix_of(result_id) != "res":
            hint = "`threegate result list` shows them"
            raise UsageError(f"{quote(args.id)} is not a result", hint=hint)
        refuse_absent(ws.store, result_id)
        result = export_files(ws, result_id, directory, over=args.force)
    if args.json:
        files = [{**one, "path": str(directory / one["name"])} for one in plain_files(result)]
        labels = {"confidentiality": result.confidentiality, "integrity": result.integrity}
        context.out.document({"result": result_id, "files": files, **labels})
        return 0
    for one in result.files:
        context.out.line(f"wrote {quote(str(directory / one.name), 500)}, {sized(one.bytes)}")
    if result.confidentiality != "public":
        context.out.note(f"these files are {result.confidentiality}")
    return 0
