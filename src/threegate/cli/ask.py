"""`threegate ask`: a question about the packets in the workspace."""

import argparse
from contextlib import contextmanager
from typing import TYPE_CHECKING

from threegate.cli.grammar import CommandGroup, Parser
from threegate.host.command_context import Context

if TYPE_CHECKING:
    from collections.abc import Iterator

    from threegate.host.ask.answer import Outcome, TypedQuestion
    from threegate.host.ask.core_session import Tell
    from threegate.host.workspace.index import Index
    from threegate.host.workspace.workspace import Workspace

_ABOUT = """\
Selects texts about the question, lets the model of the policy answer from these texts alone, and
stores the answer as an analysis. The model runs in a sandbox, or is your own server on this
machine. If you signed that, it runs on one remote machine, which every answer names. This program
cuts the quotes out of the sources. The label of each claim says the most that was checked:
`quote found` (its quotes occur in their sources and its numbers in the quotes),
`number differs`, `unchecked` (no quote) or `source retracted`. No label says that a claim is true.

Up to three sentences nearest to the question follow the claims, word for word. The model did not
choose them, and they are not counted as its claims. If the model proposes to compute or to fetch
something, the proposal becomes a draft that waits for you.

With --extractive nothing is generated: the answer is sentences of the sources, word for word.
It needs no model, and the same question gets the same answer.

Sources are chosen from all packets by the words of the question, and by meaning if the embedder
is installed (`threegate model pull`): as many as the model sees at once. --packets names the
sources instead, and --query searches for them; named sources that do not fit are read in portions.
--continue goes on from an earlier analysis: it reads that analysis, its sources and the results of
its requests, as data, and drafts no fetch request."""


def add(commands: CommandGroup) -> None:
    """Add the command."""
    parser = commands.command(
        "ask",
        "ask a question about the packets in the workspace",
        run=run,
        about=_ABOUT,
        examples=(
            "ask 'How tough is sea ice?'",
            "ask --extractive 'Which year?' --packets rp-0123456789ab rp-ba9876543210",
            "ask 'What came out?' --continue an-0123456789ab --role data-wrangler",
        ),
    )
    parser.add_argument("question", metavar="QUESTION", help="what you want to know")
    _add_sources(parser)
    parser.add_argument(
        "--role", metavar="NAME", help="a role of core.policy.md; else research-assistant"
    )
    parser.add_argument(
        "--extractive", action="store_true", help="sentences of the sources, nothing generated"
    )


def _add_sources(parser: Parser) -> None:
    parser.add_argument(
        "--packets", nargs="+", default=[], metavar="ID", help="these sources and no others"
    )
    parser.add_argument("--query", metavar="WORDS", help="only packets that hold all these words")
    parser.add_argument(
        "--continue", dest="continues", metavar="AN", help="go on from this analysis"
    )


def run(args: argparse.Namespace, context: Context) -> int:
    """Ask."""
    from threegate.host.ask.answer import answer_by_extracts, answer_by_model
    from threegate.host.ask.core_session import gates_of
    from threegate.host.ask.nearness import meaning
    from threegate.host.proxy.supervisor import LogWriter

    with context.workspace(args) as ws, context.index(ws) as index:
        ws.refuse_wrong_clock()
        noter = LogWriter(ws.store)
        with meaning(context, ws, index, noter) as near:
            if args.extractive:
                outcome = answer_by_extracts(ws, index, _typed_question(args), near)
            else:
                with _progress(context) as tell:
                    boxed = gates_of(context, ws, tell, noter)
                    outcome = answer_by_model(ws, index, _typed_question(args), boxed, near)
        _tell(args, context, ws, index, outcome)
    return 0


@contextmanager
def _progress(context: Context) -> "Iterator[Tell]":
    """Show progress: a line on a terminal, each step once elsewhere."""
    from threading import Lock

    from threegate.host.ask.core_session import TOKENS

    said: set[str] = set()
    lock = Lock()  # messages of the model's sandbox come from another thread
    with context.out.board(context.environ) as show:

        def tell(words: str) -> None:
            with lock:
                show([f"asking: {words}"])
                if words not in said and not words.startswith(TOKENS):
                    said.add(words)
                    context.out.note(words)

        yield tell


def _typed_question(args: argparse.Namespace) -> "TypedQuestion":
    from threegate.host.ask.answer import TypedQuestion

    return TypedQuestion(
        question=args.question,
        packets=args.packets,
        query=args.query,
        continues=args.continues,
        role=args.role,
    )


def _tell(
    args: argparse.Namespace, context: Context, ws: "Workspace", index: "Index", outcome: "Outcome"
) -> None:
    from threegate.artifacts.ids import short
    from threegate.host.ask.text_form import plain, plain_drafts, tell, tell_drafts
    from threegate.host.provenance.headlines import brought, brought_cites, lookup
    from threegate.host.workspace.places import ArtifactReader

    stored, look = outcome.stored, lookup(ArtifactReader(ws.store), index)
    resting = brought_cites(stored.analysis, brought(ws.store, index.origin))
    if args.json:
        found = plain(stored.id, stored.analysis, look, resting)
        context.out.document({**found, **plain_drafts(outcome)})
        return
    tell(context.out, stored.id, stored.analysis, look, resting)
    tell_drafts(context.out, outcome)
    for words in outcome.notices:
        context.out.note(words)
    if outcome.withheld is not None:
        context.out.note(outcome.withheld)
    if stored.drafts:
        context.out.note("`threegate review` shows the drafts; nothing happens before you decide")
    context.out.note(f"`threegate audit graph {short(stored.id)}` shows what it was made from")
