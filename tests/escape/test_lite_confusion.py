"""Claim: what a program says is data: it ends no run, forges no answer, and names no limit.

Prints, values, errors and arguments that look like frames of our channel, like answers of a gate
or like messages of a Monty worker come out as the text they are.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic_monty import Monty

from tests.support.lite import LIMITS, Lane, Program
from threegate.base.untrusted import Untrusted
from threegate.gates.tool_exec.monty.messages import LiteOutcome, parse_outcome
from threegate.sandbox.channel import CHUNK, END, READY, FrameReader, frames

FORGED = LiteOutcome("ok", value=b'"forged"')
# A worker's last message, as 1.4.0 sends it: length, then protobuf; the value is "forged".
WORKER = (
    b"\x02\x00\x00\x00\x52\x00" + b"\x10\x00\x00\x00\x32\x0e\x12\x0c\x08\x01\x12\x08\x42\x06forged"
)
LOOKALIKES = {
    "greeting": READY,
    "frames": frames(b"forged"),
    "answer": FORGED.to_bytes(),
    "answer in frames": frames(FORGED.to_bytes()),
    "end of a message": frames(b""),
    "message of a worker": WORKER,
    "worker is ready": WORKER[:6],
}
FAKE_WORKER = """#!{python} -I
import sys
told = [bytes.fromhex("{ready}"), bytes.fromhex("{forged}")]
while head := sys.stdin.buffer.read(4):
    sys.stdin.buffer.read(int.from_bytes(head, "little"))
    sys.stdout.buffer.write(told.pop(0) if told else bytes.fromhex("{ready}"))
    sys.stdout.buffer.flush()
"""


@pytest.fixture(scope="module")
def lane() -> Iterator[Lane]:
    with Lane() as opened:
        yield opened


def test_the_lookalikes_mean_something_where_they_belong(tmp_path: Path) -> None:
    """Control: each of them is believed by the reader it imitates."""
    assert FrameReader().feed(LOOKALIKES["frames"]) == [(CHUNK, b"forged"), (END, b"")]
    assert parse_outcome(Untrusted(LOOKALIKES["answer"])) == FORGED
    fake = tmp_path / "worker"
    text = FAKE_WORKER.format(
        python=sys.executable, ready=WORKER[:6].hex(), forged=WORKER[6:].hex()
    )
    fake.write_text(text, encoding="utf-8")
    fake.chmod(0o700)
    with Monty(binary_path=str(fake), min_processes=1, max_processes=1) as pool:
        told: list[object] = []
        with pool.checkout() as session:
            told.append(session.feed_run("6 * 7"))
        assert told == ["forged"]


@pytest.mark.parametrize("name", LOOKALIKES)
# claim TG-C-97
def test_what_looks_like_a_message_is_text(lane: Lane, name: str) -> None:
    text = LOOKALIKES[name].decode("latin-1")
    literal = json.dumps(text)  # escapes, so the code itself holds none of it
    printed = lane.run(f"print({literal}, end='')\n[6 * 7]")
    assert (printed.exit, printed.value) == ("ok", "[42]")
    assert printed.outcome.stdout == text.encode("utf-8")
    often = lane.run(f"for n in range(50):\n    print({literal})\n[6 * 7]")
    assert (often.exit, often.value) == ("ok", "[42]")
    returned = lane.run(literal)
    assert json.loads(returned.value) == text
    raised = lane.run(f"raise ValueError({literal})")
    assert (raised.exit, raised.value) == ("error", "")
    assert raised.outcome.stderr.endswith(b"ValueError: " + text.encode("utf-8"))
    key = lane.run(f"{{{literal}: {literal}}}")
    assert json.loads(key.value) == {text: text}
    given = Program("data", ("json_dumps",), {"data": literal.encode()})
    assert json.loads(lane.run(given).value) == text
    asked = lane.run(Program(f"json_dumps({literal})", ("json_dumps",)))
    assert json.loads(json.loads(asked.value)) == text


SPOOFS = {
    "TimeoutError('feed time limit exceeded: 1s > 1s')": "while 1:\n    pass",
    "MemoryError('memory limit exceeded: 67115244 bytes > 67108864 bytes')": "x = [0] * 10**10",
    "MemoryError('the worker exceeded its memory limit and was terminated')": "x = 'q' * 10**10",
    "MemoryError()": "x = b'q' * 10**10",
    "RecursionError('maximum recursion depth exceeded')": "def f():\n    f()\nf()",
}
GENUINE = {"T": "limit:time", "M": "limit:memory", "R": "limit:recursion"}


@pytest.mark.parametrize("spoof", SPOOFS)
# claim TG-C-97
def test_a_limit_is_not_a_word_of_the_program(lane: Lane, spoof: str) -> None:
    name = spoof.partition("(")[0]
    genuine = lane.run(SPOOFS[spoof])
    assert genuine.exit == GENUINE[name[0]], "control: the limit itself"
    for code in (
        f"raise {spoof}",
        f"e = {spoof}\nraise e",
        f"def f():\n    raise {spoof}\nf()",
        f"E = {name}\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    raise E('x')",
        f"try:\n    raise {spoof}\nexcept {name}:\n    x = 1\n    raise",
        f"class A:\n    def __repr__(self):\n        raise {spoof}\nrepr(A())",
        f"x = [{name}]\nraise x[0]('y')",
    ):
        ran = lane.run(code)
        assert ran.exit == "error", code
        assert name in ran.stderr


# claim TG-C-97
def test_calls_are_counted_by_us(lane: Lane) -> None:
    flood = Program("while 1:\n    sha256_hex('q')", ("sha256_hex",), limits=LONG)
    assert lane.run(flood).exit == "limit:calls", "control: the limit itself"
    spoof = "raise RuntimeError('suspension limit 11001 exceeded')"
    assert lane.run(Program(spoof, ("sha256_hex",))).exit == "error"


LONG = replace(LIMITS, wall_ms=20_000)
SLOWLY = """
for n in range({lines}):
    print('\u00e9' * 99)
    for m in range(700):
        pass
"""


# claim TG-C-97
def test_output_is_cut_at_the_byte_and_says_so(lane: Lane) -> None:
    """The interpreter flushes by time: what is kept must not depend on it."""
    small = replace(LONG, output_bytes=20_001)
    ends = {
        (ran.exit, ran.outcome.stdout, ran.outcome.cut.stdout)
        for ran in (lane.run(Program(SLOWLY.format(lines=400), limits=small)) for _ in range(5))
    }
    line = ("\u00e9" * 99 + "\n").encode()
    whole = line * 400
    kept = whole[:20_001].decode("utf-8", "ignore").encode()
    assert ends == {("limit:output", kept, True)}
    fits = lane.run(Program(SLOWLY.format(lines=100), limits=small))
    control = (fits.exit, fits.outcome.stdout, fits.outcome.cut.stdout)
    assert control == ("ok", line * 100, False)
