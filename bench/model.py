"""The embedded model in its box, next to the bare library in a bare process.

Both load the same file with the same settings and take turns, so that a busy machine is as
busy for each; what they write is compared.  What is measured is the way around the model: box,
socket, front.  The model is the smallest there is: with any other the share is smaller.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from bench.figures import Plain, Sizes, compare
from bench.measure import noise, say
from tests.support.models import completed, embedded, served, smallest
from threegate.gates.model.chat.messages import ChatReply, ChatRequest

LEAST_SHARE: Final = 0.9
WORDS: Final = 60
WRITTEN: Final = 64
CONTEXT_TOKENS: Final = 1024
GRAMMAR: Final = "root ::= [a-z ]{400,500}"
PEER: Final = "xllamacpp in a bare process"
# The settings of the server, without anything of ours.
BARE: Final = """
import os, sys, json
os.environ["OMP_WAIT_POLICY"] = "passive"
import xllamacpp
p = xllamacpp.CommonParams()
p.model.path = sys.argv[1]
p.n_ctx = int(sys.argv[2])
p.n_batch = p.n_ubatch = 256
p.n_parallel = 1
p.n_gpu_layers = 0
p.cpuparams.n_threads = p.cpuparams_batch.n_threads = len(os.sched_getaffinity(0))
p.hostnames = ["\\0bare-%d.sock" % os.getpid()]
p.ui = p.warmup = p.fit_params = False
p.offline = True
p.cache_ram_mib = 0
p.verbosity = -1
server = xllamacpp.Server(p)
print("ready", flush=True)
for line in sys.stdin:
    print(json.dumps(server.handle_chat_completions(json.loads(line))), flush=True)
"""


Ask = Callable[[ChatRequest], tuple[str, int]]  # what was written, and tokens read


def run(sizes: Sizes, directory: Path) -> Plain:
    """Measure and return rows."""
    rounds = max(2, sizes.queries // 5)
    say("model: loading, in the box and bare")
    bundle = embedded(context_tokens=CONTEXT_TOKENS, deadline_seconds=600)
    with ExitStack() as stack:
        began = time.perf_counter()
        server = stack.enter_context(served(bundle, directory))
        boxed = time.perf_counter() - began
        bare = stack.enter_context(_bare())
        loaded = time.perf_counter() - began - boxed
        say("model: prompts and replies, in turns")
        ours = partial(_ours, server.socket)
        rows = [
            _read_row(rounds, ours, bare),
            _written_row(rounds, ours, bare),
            compare(
                "loading the model until it can be asked, its digest taken (bare: not taken)",
                boxed * 1000,
                peer=PEER,
                theirs=loaded * 1000,
                unit="ms",
                smaller_is_better=True,
            ),
        ]
    return {"rows": rows, "curves": []}


def _read_row(rounds: int, ours: Ask, bare: Ask) -> Plain:
    """Measure reading: a prompt that neither has seen, and one token."""
    laps: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds):
        text = " ".join(f"{number} sea {word}" for word in range(WORDS))
        asked = ChatRequest((("user", text),), 1)
        for lap, ask in _in_turns(number, laps, ours, bare):
            began = time.perf_counter()
            _, tokens = ask(asked)
            lap.append((time.perf_counter() - began) / tokens)
    return _row("tokens of a prompt, read", laps)


def _written_row(rounds: int, ours: Ask, bare: Ask) -> Plain:
    """Measure writing: a prompt that both know, and a reply of one length."""
    asked = ChatRequest((("user", "Write about the sea."),), WRITTEN, grammar=GRAMMAR)
    assert ours(asked) == bare(asked), "both write the same"
    laps: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds):
        for lap, ask in _in_turns(number, laps, ours, bare):
            began = time.perf_counter()
            ask(asked)
            lap.append((time.perf_counter() - began) / WRITTEN)
    return _row("tokens of a reply, written under a grammar", laps)


def _in_turns(
    number: int, laps: tuple[list[float], list[float]], ours: Ask, bare: Ask
) -> list[tuple[list[float], Ask]]:
    """Let the other one begin in every other round."""
    pairs = list(zip(laps, (ours, bare), strict=True))
    return pairs if number % 2 else pairs[::-1]


def _row(what: str, laps: tuple[list[float], list[float]]) -> Plain:
    ours, theirs = map(statistics.median, laps)
    return compare(
        what,
        1 / ours,
        peer=PEER,
        theirs=1 / theirs,
        unit="tokens/s",
        target=f"at least {LEAST_SHARE:.0%} of the bare library",
        met=theirs / ours >= LEAST_SHARE,
        noise=(noise(laps[0]), noise(laps[1])),
    )


def _ours(socket: Path, asked: ChatRequest) -> tuple[str, int]:
    reply = completed(socket, asked)
    assert isinstance(reply, ChatReply), reply
    return reply.content.open_for_display(), reply.prompt_tokens


@contextmanager
def _bare() -> Iterator[Ask]:
    """Start the library in a process of its own, and return a way to ask it."""
    argv = [sys.executable, "-c", BARE, str(smallest()), str(CONTEXT_TOKENS)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        asking, answers = process.stdin, process.stdout

        def ask(asked: ChatRequest) -> tuple[str, int]:
            asking.write(asked.to_bytes() + b"\n")
            asking.flush()
            found = json.loads(answers.readline())
            return found["choices"][0]["message"]["content"], found["usage"]["prompt_tokens"]

        try:
            yield ask
        finally:
            process.kill()
