"""validate and admit: what comes in, what does not, and what is said of each."""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.cli import Cli, made, write
from tests.support.samples import analysis, approval, fetch_request, one_of_each, packet
from threegate.artifacts import registry
from threegate.artifacts.ids import sha256_hex
from threegate.base.forms import KINDS

DRAFT = b"""\
---
format: "tr/1"
---

# Tool Request

## Purpose

The mean of three measurements.

## Code

```python
(1.1 + 1.2 + 1.3) / 3
```

## Risks

None beyond wrong arithmetic.
"""


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return made(tmp_path)


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return write(tmp_path / "good.md", registry.emit(packet()))


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    return write(tmp_path / "bad.md", registry.emit(packet()).replace(b"Ice at", b"<b>Ice at"))


def test_validate_names_kind_and_id_of_all_six(tmp_path: Path) -> None:
    files = {
        prefix: write(tmp_path / f"{prefix}.md", registry.emit(item))
        for prefix, item in one_of_each().items()
    }
    shown = Cli(tmp_path)("validate", *files.values()).out.splitlines()
    for line, (prefix, path) in zip(shown, files.items(), strict=True):
        digest = sha256_hex(path.read_bytes())
        assert line == f"{KINDS[prefix]} {prefix}-{digest} {path}"


def test_validate_rejects_with_code_reason_and_hint(tmp_path: Path, good: Path, bad: Path) -> None:
    cli = Cli(tmp_path)
    cli("validate", good)  # control
    done = cli("validate", good, bad, code=65)
    first, second, third = done.out.splitlines()
    assert first.startswith("research-packet rp-")
    assert re.fullmatch(rf"rejected TG-ART-019 {bad}: markup in line \d+", second)
    assert third.startswith("  hint: ")


def test_validate_as_json(tmp_path: Path, good: Path, bad: Path) -> None:
    done = Cli(tmp_path)("validate", "--json", good, bad, tmp_path / "missing", code=65)
    first, second, third = done.json["files"]
    digest = sha256_hex(good.read_bytes())
    assert first == {
        "file": str(good),
        "ok": True,
        "kind": "research-packet",
        "id": f"rp-{digest}",
        "draft": False,
    }
    assert (second["ok"], second["code"]) == (False, "TG-ART-019")
    assert (third["ok"], third["code"]) == (False, "TG-USE-002")


def test_validate_of_what_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    assert "TG-USE-002" in Cli(tmp_path)("validate", "missing", code=2).out


def test_validate_reads_standard_input(tmp_path: Path, good: Path) -> None:
    shown = Cli(tmp_path)("validate", "-", stdin=good.read_bytes()).out
    assert shown.endswith(" -\n")
    assert Cli(tmp_path)("validate", "-", stdin=b"", code=65).out.startswith(
        "rejected TG-ART-016 -"
    )


def test_validate_says_that_a_draft_has_no_id_yet(tmp_path: Path) -> None:
    shown = Cli(tmp_path)("validate", "-", stdin=DRAFT).out
    assert shown == "tool-request (draft) -\n"
    hostile = DRAFT.replace(b'format: "tr/1"', b'format: "tr/1"\ncreated: "2026-01-01T00:00:00Z"')
    assert "rejected TG-ART-" in Cli(tmp_path)("validate", "-", stdin=hostile, code=65).out


def test_a_file_that_claims_the_id_of_other_bytes_is_rejected(tmp_path: Path, good: Path) -> None:
    liar = write(tmp_path / f"rp-{'0' * 64}.md", good.read_bytes())
    assert "rejected TG-ART-018" in Cli(tmp_path)("validate", liar, code=65).out


def test_admit_stores_a_copy_and_says_so_again(cli: Cli, good: Path) -> None:
    assert cli.workspace is not None
    artifact_id = f"rp-{sha256_hex(good.read_bytes())}"
    assert cli("admit", good).out == f"accepted {artifact_id} {good}\n"
    assert cli("admit", good).out == f"already {artifact_id} {good}\n"
    stored = cli.workspace / "handoff/packets/accepted" / f"{artifact_id}.md"
    assert stored.read_bytes() == good.read_bytes()
    assert stored.stat().st_mode & 0o777 == 0o444
    assert not os.path.samefile(stored, good)


def test_what_breaks_a_rule_lands_in_quarantine_with_bytes_and_reason(cli: Cli, bad: Path) -> None:
    done = cli("admit", bad, code=65)
    digest = sha256_hex(bad.read_bytes())
    assert done.out.startswith(f"quarantined TG-ART-019 {digest[:12]} {bad}: markup in line ")
    (item,) = cli("quarantine", "list", "--json").json["items"]
    assert (item["sha256"], item["code"], item["id"]) == (digest, "TG-ART-019", None)
    assert item["bytes"] == bad.stat().st_size
    assert cli("quarantine", "show", "--raw", digest[:12]).raw_out == bad.read_bytes()
    shown = cli("quarantine", "show", digest).out
    assert "TG-ART-019" in shown
    assert "    |     <b>Ice at" in shown
    assert cli("packet", "list", "--json").json["items"] == []


def test_one_bad_file_does_not_hold_up_the_others(cli: Cli, good: Path, bad: Path) -> None:
    fifo = cli.base / "fifo"
    os.mkfifo(fifo)
    done = cli("admit", "--json", bad, fifo, good, cli.base, code=65)
    found = [(item["status"], item["code"]) for item in done.json["files"]]
    assert found == [
        ("quarantined", "TG-ART-019"),
        ("refused", "TG-USE-004"),
        ("accepted", None),
        ("refused", "TG-USE-003"),
    ]


def test_a_draft_is_stamped_and_held(cli: Cli) -> None:
    first = cli("admit", "-", "--json", stdin=DRAFT).json["files"][0]
    second = cli("admit", "-", "--json", stdin=DRAFT).json["files"][0]
    assert (first["status"], first["state"]) == ("accepted", "held")
    assert first["id"] != second["id"], "asking again is a new request"
    fields = cli("request", "show", "--json", first["id"]).json["fields"]
    assert (fields["backend"], fields["origin"], fields["profile"]) == ("monty", "operator", "pure")
    assert fields["limits"]["wall_ms"] == 2000


def test_a_draft_gets_the_limits_of_the_policy_in_force(cli: Cli) -> None:
    assert cli.workspace is not None
    path = cli.workspace / "policy/tool-exec.policy.md"
    text = path.read_text("utf-8")
    assert "wall_ms: 2s" in text
    path.write_text(text.replace("wall_ms: 2s", "wall_ms: 1s"), "utf-8")
    cli("policy", "apply", "--yes")
    found = cli("admit", "-", "--json", stdin=DRAFT).json["files"][0]
    assert cli("request", "show", "--json", found["id"]).json["fields"]["limits"]["wall_ms"] == 1000


def test_a_bad_draft_is_quarantined_as_it_was_typed(cli: Cli) -> None:
    typed = DRAFT.replace(b"## Risks", b"## Risk")
    found = cli("admit", "-", "--json", stdin=typed, code=65).json["files"][0]
    assert (found["status"], found["code"]) == ("quarantined", "TG-ART-014")
    assert cli("quarantine", "show", "--raw", found["sha256"]).raw_out == typed


def test_what_it_was_made_from_comes_first(cli: Cli, good: Path) -> None:
    source = f"rp-{sha256_hex(good.read_bytes())}"
    made_of = analysis()
    cite = replace(made_of.claims[0].cites[0], artifact=source)
    claims = (replace(made_of.claims[0], cites=(cite,)), made_of.claims[1])
    made_of = replace(made_of, selection=(source,), derived_from=(source,), claims=claims)
    path = write(cli.base / "analysis.md", registry.emit(made_of))
    done = cli("admit", path, code=65)
    assert "TG-HND-012" in done.out
    assert "hint: admit what it was made from first" in done.out
    assert cli("admit", good, path).out.count("accepted ") == 2


def test_an_approval_is_not_admitted_by_hand(cli: Cli) -> None:
    done = cli("admit", "-", stdin=registry.emit(approval()), code=65)
    assert "TG-HND-013" in done.out


def test_an_operators_request_waits_and_a_draft_of_core_is_a_draft(cli: Cli) -> None:
    core = fetch_request(origin="core", integrity="external")
    for item, state in ((fetch_request(), "held"), (core, "draft")):
        found = cli("admit", "-", "--json", stdin=registry.emit(item)).json["files"][0]
        assert found["state"] == state
    waiting = cli("status", "--json").json["waiting"]
    assert waiting == {"held": 1, "draft": 1}


def test_many_files_in_one_command(cli: Cli) -> None:
    files = [
        write(cli.base / "many" / f"{n}.md", registry.emit(packet(f"Text number {n}.")))
        for n in range(300)
    ]
    done = cli("admit", *files)
    lines = done.out.splitlines()
    assert [line.split()[-1] for line in lines] == [str(file) for file in files], "in order"
    assert cli("packet", "list", "--json", "--limit", "1").json["total"] == 300
    assert cli("audit", "verify", "--json").json["ok"]
