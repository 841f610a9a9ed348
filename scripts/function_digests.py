"""Show the digests of the external functions, or write them into the default policy.

Usage: function_digests.py [--write]; exits 1 if the default policy names others.  Writing
them is a security change: it says that somebody has read the functions as they are now.
"""

import re
import sys
from pathlib import Path

from threegate.gates.tool_exec.monty.functions import digests

ROOT = Path(__file__).resolve().parent.parent
POLICY = ROOT / "src" / "threegate" / "policy" / "defaults" / "tool-exec.policy.md"


def with_digests(text: str, found: dict[str, str]) -> str:
    """Return the policy page with these digests."""
    for name, digest in found.items():
        pattern = rf"(?m)^(  {name}:\n    sha256: ).*$"
        text, count = re.subn(pattern, rf"\g<1>{digest}", text)
        if count != 1:
            raise SystemExit(f"{POLICY.name} has no sha256 for {name}")
    return text


def main() -> int:
    for name, digest in digests().items():
        print(f"{digest}  {name}")
    before = POLICY.read_text("utf-8")
    after = with_digests(before, digests())
    if after == before:
        return 0
    if sys.argv[1:] == ["--write"]:
        POLICY.write_text(after, "utf-8")
        return 0
    print(f"{POLICY.name} names other digests; read the functions, then use --write")
    return 1


if __name__ == "__main__":
    sys.exit(main())
