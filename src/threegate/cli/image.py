"""`threegate image build|lock|list|verify|remove|export|import`: the guests of the heavy lane."""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from threegate.cli.grammar import CommandGroup, Parser, add_yes
from threegate.host.command_context import Context

if TYPE_CHECKING:
    from threegate.host.images.lock import ChosenLock
    from threegate.host.images.store import Image, Images

_BUILD = """\
An image is a kernel, an init and layers of files, made of Debian's packages. The lock names each
package with its version and digest. This machine's own apt downloads them; none is installed or
run. No root is needed. The same lock gives the same image: its name is the
digest of everything in it. Downloads are kept, so the next build starts at once."""
_LOCK = """\
Says which lock is used: the one you name, your own, or the one that came with this program. With
--update it asks apt for the versions it offers now and writes them down as your own lock;
packages of an older lock vanish from archives with time. Read what changed, then build."""
_VERIFY = """\
Reads every byte of the images you name, or of all, and compares it with the digest in their
name. Ends with 69 if one is damaged."""
_IMPORT = """\
Compares every byte with the digests in the file: a changed byte is refused, or gives another image.
With --digest it must be the image of that digest, which you got by another way. Without it you are
shown the digest and asked before anything is kept: the maker of the image decides what approved
code runs in and what its results say."""
_DIGEST = "an image of `image list`, or the first 12 digits of it"


def add(commands: CommandGroup) -> None:
    """Add the group."""
    group = commands.group("image", "build and keep the guests in which heavy code runs")
    _add_making(group)
    group.command(
        "list",
        "list the images on this machine",
        run=run_list,
        examples=("image list", "image list --json"),
        workspace=False,
    )
    parser = group.command(
        "verify",
        "compare images with their digests",
        run=run_verify,
        about=_VERIFY,
        examples=("image verify", "image verify 213b5b21fbe6"),
        workspace=False,
    )
    parser.add_argument("digests", nargs="*", metavar="DIGEST", help=_DIGEST)
    parser = group.command(
        "remove",
        "remove an image from this machine",
        run=run_remove,
        examples=("image remove 213b5b21fbe6",),
        workspace=False,
    )
    parser.add_argument("digest", metavar="DIGEST", help=_DIGEST)
    _add_moving(group)


def _add_making(group: CommandGroup) -> None:
    parser = group.command(
        "build",
        "make an image from the lock",
        run=run_build,
        about=_BUILD,
        examples=("image build", "image build --layer base", "image build --lock my.lock"),
        workspace=False,
    )
    parser.add_argument(
        "--layer",
        dest="layers",
        action="append",
        choices=("base", "science"),
        help="only these layers, in this order; else all",
    )
    _add_lock(parser)
    parser = group.command(
        "lock",
        "show the lock, or lock the versions offered now",
        run=run_lock,
        about=_LOCK,
        examples=("image lock", "image lock --update", "image lock --update --to my.lock"),
        workspace=False,
    )
    _add_lock(parser)
    parser.add_argument("--update", action="store_true", help="ask apt, and write a new lock")
    parser.add_argument("--to", metavar="FILE", help="where --update writes; else your own lock")


def _add_moving(group: CommandGroup) -> None:
    parser = group.command(
        "export",
        "write an image to one file, for another machine",
        run=run_export,
        examples=("image export 213b5b21fbe6 image.tar",),
        workspace=False,
    )
    parser.add_argument("digest", metavar="DIGEST", help=_DIGEST)
    parser.add_argument("file", metavar="FILE", help="a file that is not there yet")
    parser = group.command(
        "import",
        "bring an image from a file of `image export`",
        run=run_import,
        about=_IMPORT,
        examples=("image import image.tar --digest DIGEST", "image import image.tar"),
        workspace=False,
    )
    parser.add_argument("file", metavar="FILE", help="what `image export` wrote")
    parser.add_argument("--digest", metavar="DIGEST", help="the image it must be, all 64 digits")
    add_yes(parser, "do not ask: take any image")


def _add_lock(parser: Parser) -> None:
    parser.add_argument("--lock", metavar="FILE", help="another lock than the one in use")


def run_build(args: argparse.Namespace, context: Context) -> int:
    """Build an image."""
    from threegate.host.images.build import build
    from threegate.host.images.choice import Sources
    from threegate.host.images.packages import Apt, Packages
    from threegate.host.images.recipe import KERNEL, LAYERS
    from threegate.host.models.store import megabytes

    chosen = _chosen(args, context)
    layers = list(dict.fromkeys(args.layers or LAYERS))
    needed = [item for item in chosen.lock.packages if item.layer in {KERNEL, *layers}]
    packages = Packages(context.settings.cache_home / "debs", Apt(context.environ))
    size = sum(item.size for item in needed)
    context.out.note(f"building from {chosen.path}: {len(needed)} packages, {megabytes(size)}")
    with _counted(context, "packages, MB", size) as advance:
        image = build(
            chosen.lock,
            layers,
            _images(context),
            packages,
            Sources.usual(),
            progress=advance,
            say=context.out.note,
        )
    _show(args, context, image)
    return 0


def run_lock(args: argparse.Namespace, context: Context) -> int:
    """Show the lock, or write a new one."""
    from threegate.base.errors import UsageError
    from threegate.host.models.store import megabytes

    if args.to and not args.update:
        raise UsageError("--to is where --update writes", hint="add --update")
    chosen = _chosen(args, context)
    if args.update:
        return _update(args, context, chosen)
    lock = chosen.lock
    size = sum(item.size for item in lock.packages)
    if args.json:
        items = [
            {
                "layer": item.layer,
                "name": item.name,
                "version": item.version,
                "architecture": item.architecture,
                "size": item.size,
                "sha256": item.sha256,
            }
            for item in lock.packages
        ]
        context.out.document({"file": str(chosen.path), "digest": lock.digest, "packages": items})
        return 0
    context.out.table(
        ("LAYER", "PACKAGE", "VERSION"),
        [(item.layer, item.name, item.version) for item in lock.packages],
    )
    context.out.line(f"{len(lock.packages)} packages, {megabytes(size)}, of {chosen.path}")
    return 0


def _update(args: argparse.Namespace, context: Context, chosen: "ChosenLock") -> int:
    from threegate.host.images.lock import LOCK_FILE, differences, write_lock
    from threegate.host.images.packages import Apt, resolve

    lock = resolve(Apt(context.environ))
    settings = context.settings
    path = settings.cwd / args.to if args.to else settings.config_home / LOCK_FILE
    changed = differences(chosen.lock, lock)
    write_lock(lock, path)
    if args.json:
        items = [{"name": name, "old": old, "new": new} for name, old, new in changed]
        context.out.document({"file": str(path), "digest": lock.digest, "changed": items})
        return 0
    if changed:
        context.out.table(("PACKAGE", "OLD", "NEW"), changed)
    context.out.line(f"{len(changed)} packages changed; the lock is {path}")
    return 0


def run_list(args: argparse.Namespace, context: Context) -> int:
    """Print the images that are here."""
    from threegate.base.errors import GateUnavailable
    from threegate.host.models.store import megabytes

    images = _images(context)
    found: list[tuple[str, Image | None]] = []
    for digest in images.digests():
        try:
            found.append((digest, images.find(digest)))
        except GateUnavailable:
            found.append((digest, None))
    if args.json:
        items = [_described(i) if i else {"digest": d, "damaged": True} for d, i in found]
        context.out.document({"images": items})
        return 0
    rows = [
        (d, megabytes(i.manifest.size), i.manifest.kernel_version, " ".join(i.manifest.layers))
        if i
        else (d, "-", "-", "damaged")
        for d, i in found
    ]
    if rows:
        context.out.table(("DIGEST", "SIZE", "KERNEL", "LAYERS"), rows)
    else:
        context.out.line("none; `threegate image build` makes one")
    return 0


def run_verify(args: argparse.Namespace, context: Context) -> int:
    """Read images and compare."""
    from threegate.base.errors import GateUnavailable

    images = _images(context)
    digests = [images.resolve(text) for text in args.digests] or images.digests()
    states, first = {}, None
    with _counted(context, "reading images, MB", None) as advance:
        for digest in digests:
            try:
                images.find(digest, verify=True, progress=advance)
                states[digest] = "intact"
            except GateUnavailable as exc:
                states[digest] = exc.message
                first = first or exc
    if args.json:
        items = [{"digest": digest, "state": state} for digest, state in states.items()]
        context.out.document({"images": items})
    for digest, state in states.items() if not args.json else ():
        context.out.line(f"{digest}  {state}")
    if first is not None:
        raise first
    return 0


def run_remove(args: argparse.Namespace, context: Context) -> int:
    """Remove an image."""
    from threegate.host.models.store import megabytes

    images = _images(context)
    digest = images.resolve(args.digest)
    freed = images.remove(digest)
    if args.json:
        context.out.document({"digest": digest, "bytes": freed})
    else:
        context.out.line(f"{digest}  {f'{megabytes(freed)} removed' if freed else 'not here'}")
    return 0


def run_export(args: argparse.Namespace, context: Context) -> int:
    """Write an image to a file."""
    from threegate.host.images.store import export_image

    images = _images(context)
    image = images.find(images.resolve(args.digest))
    path = context.settings.cwd / args.file
    with _counted(context, "writing, MB", image.manifest.size) as advance:
        export_image(image, path, advance)
    if args.json:
        context.out.document({"digest": image.digest, "file": str(path)})
    else:
        context.out.line(f"{image.digest}  written to {path}")
    return 0


def run_import(args: argparse.Namespace, context: Context) -> int:
    """Bring an image from a file."""
    import os

    from threegate.base.errors import UsageError
    from threegate.base.text import quote
    from threegate.host.images.store import import_image

    try:
        file = (context.settings.cwd / args.file).open("rb")
    except OSError as exc:
        reason = os.strerror(exc.errno or 0)
        raise UsageError(f"cannot read {quote(args.file)}: {reason}") from exc
    with file, _counted(context, "reading, MB", None) as advance:
        image = import_image(
            file,
            _images(context),
            expected=args.digest,
            look=partial(_asked_for, args, context),
            progress=advance,
        )
    _show(args, context, image)
    return 0


def _asked_for(args: argparse.Namespace, context: Context, digest: str) -> None:
    """Raise `WaitingForHuman` or `PolicyDenied` unless the operator takes this image."""
    from threegate.base.errors import WaitingForHuman

    hint = "give --digest DIGEST if you got it by another way, or --yes to take any image"
    try:
        context.agree(args, f"the file holds the image {digest}; take it?", undone="not imported")
    except WaitingForHuman as exc:
        message = f"nobody can be asked whether the image {digest} is the right one"
        raise WaitingForHuman(message, hint=hint) from exc
    if args.yes:
        context.out.note(f"nobody named the image {digest}; it is taken as it is")


def _show(args: argparse.Namespace, context: Context, image: "Image") -> None:
    from threegate.host.models.store import megabytes

    if args.json:
        context.out.document(_described(image))
        return
    layers = " ".join(image.manifest.layers)
    context.out.line(f"{image.digest}  {megabytes(image.manifest.size)}, layers {layers}")


def _described(image: "Image") -> dict[str, Any]:
    manifest = image.manifest
    return {
        "digest": image.digest,
        "bytes": manifest.size,
        "kernel_version": manifest.kernel_version,
        "layers": list(manifest.layers),
        "lock_sha256": manifest.lock_sha256,
        "agent_sha256": manifest.agent_sha256,
    }


@contextmanager
def _counted(context: Context, what: str, size: int | None) -> Iterator[Callable[[int], None]]:
    """Yield a function that shows the megabytes so far."""
    total = None if size is None else round(size / 1_000_000)
    done = 0
    with context.out.progress(what, total) as show:

        def advance(count: int) -> None:
            nonlocal done
            done += count
            show(round(done / 1_000_000))

        yield advance


def _chosen(args: argparse.Namespace, context: Context) -> "ChosenLock":
    from threegate.host.images.lock import choose_lock

    named = context.settings.cwd / Path(args.lock).expanduser() if args.lock else None
    return choose_lock(named, context.settings.config_home)


def _images(context: Context) -> "Images":
    from threegate.host.images.store import Images

    return Images(context.settings.cache_home / "images")
