"""The corpus is the one its manifest describes, so the suites over it run on what they name."""

import hashlib
import json
from pathlib import Path


def test_every_file_of_the_manifest_is_there_with_its_digest(corpus: Path) -> None:
    rows = [
        json.loads(line) for line in (corpus / "manifest.jsonl").read_text("utf-8").splitlines()
    ]
    assert rows, "an empty manifest would let every corpus test pass on nothing"
    wrong = [
        row["file"]
        for row in rows
        if hashlib.sha256((corpus / row["file"]).read_bytes()).hexdigest() != row["sha256"]
    ]
    assert wrong == []
