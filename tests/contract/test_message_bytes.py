"""The bytes of every message are pinned, and so is which mutants of each are refused.

`tests/vectors/messages/golden.json` holds both.  `python -m tests.contract.test_message_bytes`
writes it again; a change of it is a change of what crosses a gate.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.message_mutants import mutants
from tests.support.messages import FRAMES, MESSAGES, SPELLED
from threegate.base.errors import ProtocolBroken
from threegate.base.untrusted import Untrusted

GOLDEN = Path(__file__).parents[1] / "vectors" / "messages" / "golden.json"
Parse = Callable[[Untrusted[bytes]], Any]


def samples() -> Iterator[tuple[str, bytes, Parse]]:
    """Yield every message that is parsed, with its name."""
    for protocol, pairs in MESSAGES.items():
        for number, (message, parse) in enumerate(pairs):
            yield f"{protocol}-{number}", message.to_bytes(), parse
    for protocol, frames in FRAMES.items():
        for number, (data, read) in enumerate(frames):
            yield f"{protocol}-{number}", data, read


def pinned(data: bytes) -> dict[str, Any]:
    """Return what is kept of a message: its first line to read, and the digest of all bytes."""
    line = data.partition(b"\n")[0].decode("utf-8", errors="backslashreplace")
    return {"bytes": len(data), "line": line, "sha256": hashlib.sha256(data).hexdigest()}


def verdicts(data: bytes, parse: Parse) -> Iterator[tuple[str, bool]]:
    """Yield every mutant's name and whether it is accepted; anything but a refusal fails."""
    for name, mutant in mutants(data):
        if mutant == data:
            continue
        try:
            parsed = parse(Untrusted(mutant))
        except ProtocolBroken as exc:
            assert exc.code == "TG-PRO-001"
            yield name, False
        else:
            if hasattr(parsed, "to_bytes"):
                assert parsed.to_bytes() == mutant, f"{name}: a second spelling"
            yield name, True


def judged(data: bytes, parse: Parse) -> dict[str, Any]:
    """Return how many mutants there are, how many are accepted, and the digest of which."""
    found = list(verdicts(data, parse))
    accepted = [name for name, yes in found if yes]
    digest = hashlib.sha256("\n".join(map(repr, accepted)).encode()).hexdigest()
    return {"mutants": len(found), "accepted": len(accepted), "which": digest}


def everything() -> dict[str, Any]:
    found = {name: pinned(data) | judged(data, parse) for name, data, parse in samples()}
    return found | {name: pinned(data) for name, data in SPELLED.items()}


EXPECTED: dict[str, Any] = json.loads(GOLDEN.read_text("utf-8")) if GOLDEN.exists() else {}
SAMPLES = [pytest.param(*sample, id=sample[0]) for sample in samples()]


def test_every_pinned_message_is_still_built() -> None:
    assert [*(name for name, _, _ in samples()), *SPELLED] == list(EXPECTED)
    assert len(EXPECTED) > 80


@pytest.mark.parametrize(("name", "data", "parse"), SAMPLES)
def test_a_message_has_the_bytes_it_always_had(name: str, data: bytes, parse: Parse) -> None:
    expected = EXPECTED[name]
    assert pinned(data) == {key: expected[key] for key in ("bytes", "line", "sha256")}
    parse(Untrusted(data))


@pytest.mark.parametrize("name", SPELLED)
def test_a_frame_has_the_bytes_it_always_had(name: str) -> None:
    assert pinned(SPELLED[name]) == EXPECTED[name]


@pytest.mark.parametrize(("name", "data", "parse"), SAMPLES)
def test_the_same_mutants_are_refused(name: str, data: bytes, parse: Parse) -> None:
    expected = EXPECTED[name]
    assert judged(data, parse) == {key: expected[key] for key in ("mutants", "accepted", "which")}
    assert expected["mutants"] - expected["accepted"] > 20, "control: most mutants are refused"


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(everything(), indent=1) + "\n", "utf-8")
