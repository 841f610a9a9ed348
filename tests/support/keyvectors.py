"""Loads vector files: a first line `expect: VERDICT`, then the bytes."""

from pathlib import Path

VECTORS = Path(__file__).parents[1] / "unit" / "keys" / "vectors"


def load(kind: str, verdict: str) -> dict[str, tuple[str, bytes]]:
    """Return name -> (expectation, bytes); an empty or missing directory is a failure."""
    found = {}
    for path in sorted((VECTORS / kind / verdict).glob("*.txt")):
        head, _, body = path.read_bytes().partition(b"\n")
        key, _, expected = head.decode("ascii").partition(": ")
        if key != "expect" or (expected == "ok") != (verdict == "accept"):
            raise AssertionError(f"{path} does not say what to expect")
        found[path.stem] = (expected, body)
    if not found:
        raise AssertionError(f"no vectors for {kind}/{verdict}")
    return found
