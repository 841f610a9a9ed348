"""request new and check, with the real lane in its box: what is held, what is said, what stays."""

import re
from pathlib import Path

import pytest

from tests.support.cli import Cli, Done, made, write
from tests.support.samples import fetch_request
from tests.support.workspaces import files_below, key_file
from threegate.artifacts import registry
from threegate.artifacts.ids import sha256_hex

BEYOND = b"rows = [1]\n\nimport socket\n"
PURPOSE = ("--purpose", "The sum of the rows.")


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return made(tmp_path)


@pytest.fixture
def code(tmp_path: Path) -> Path:
    return write(tmp_path / "sum.py", b"print('adding')\nsum(rows)\n")


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write(tmp_path / "rows.json", b"[1, 2, 3]\n")


def workspace(cli: Cli) -> Path:
    assert cli.workspace is not None
    return cli.workspace


def requests(cli: Cli) -> list[str]:
    return [item["id"] for item in cli("request", "list", "--json").json["items"]]


def refused(cli: Cli, *words: str | Path, code: int) -> Done:
    """Return how a command ended that must leave everything as it was."""
    before = files_below(workspace(cli) / "handoff")
    done = cli("request", "new", *words, code=code)
    assert files_below(workspace(cli) / "handoff") == before, "something was stored"
    assert done.err.count("threegate: error: ") == 1
    return done


def enable_era(cli: Cli) -> None:
    policy = workspace(cli) / "policy"
    old, new = "  era:\n    enabled: no", "  era:\n    enabled: yes"
    text = (policy / "tool-exec.policy.md").read_text("utf-8")
    assert old in text
    (policy / "tool-exec.policy.md").write_text(text.replace(old, new), "utf-8")
    cli("policy", "apply", "--yes")


def test_a_request_is_held_for_review(cli: Cli, code: Path, rows: Path) -> None:
    done = cli("request", "new", *PURPOSE, "--code", code, "--input", f"rows={rows}")
    found = re.fullmatch(r"held (tr-[0-9a-f]{64})\n", done.out)
    assert found is not None
    assert f"`threegate review show {found[1][:15]}`" in done.err
    (item,) = cli("request", "list", "--state", "held", "--json").json["items"]
    assert item["id"] == found[1]
    fields = cli("request", "show", found[1], "--json").json["fields"]
    assert fields["code_sha256"] == sha256_hex(code.read_bytes())
    assert fields["inputs"][0]["artifact"] == f"blob-{sha256_hex(rows.read_bytes())}"
    assert (fields["backend"], fields["origin"]) == ("monty", "operator")
    cli("audit", "verify")


# claim TG-C-446
def test_review_names_the_file_an_input_came_from_and_not_its_folder(cli: Cli, code: Path) -> None:
    folder = cli.base / "private"
    folder.mkdir()
    rows = write(folder / "shadow \u202e.json", b"[1, 2, 3]\n")
    done = cli("request", "new", *PURPOSE, "--code", code, "--input", f"rows={rows}", "--json")
    found = done.json["id"]
    (given,) = cli("request", "show", found, "--json").json["fields"]["inputs"]
    assert given["file"] == "shadow \\u{202e}.json", "what reorders a line is spelled out"
    shown = cli("review", "show", found).out
    assert '"shadow' in shown
    assert "private" not in shown
    assert "private" not in cli("request", "show", found, "--json").out
    assert cli("audit", "verify").out.startswith("verified")


def test_everything_can_be_said_on_the_command_line(cli: Cli, code: Path, rows: Path) -> None:
    words = ("--limit", "wall_ms=10s", "--limit", "memory_bytes=128MiB", "--function", "all")
    labels = ("--confidentiality", "confidential", "--risks", "Wrong sums.", "--ring", "pure")
    given = ("--code", "-", "--input", f"rows={rows}")
    done = cli(
        "request", "new", *PURPOSE, *given, *words, *labels, "--json", stdin=code.read_bytes()
    )
    fields = done.json["fields"]
    assert (done.json["state"], done.json["refusal"]) == ("held", None)
    assert (fields["limits"]["wall_ms"], fields["limits"]["memory_bytes"]) == (10_000, 2**27)
    assert fields["functions"] == ["json_dumps", "json_loads", "regex_findall", "sha256_hex"]
    assert fields["confidentiality"] == "confidential"
    sections = cli("request", "show", done.json["id"], "--json").json["sections"]
    assert sections["Risks"] == "Wrong sums."
    assert sections["Code"] == code.read_text("utf-8")


def test_what_monty_cannot_express_is_named_by_construct_line_and_reason(cli: Cli) -> None:
    done = cli("request", "new", *PURPOSE, "--code", "-", stdin=BEYOND, code=65)
    lines = done.out.splitlines()
    assert lines[:2] == ["Monty cannot express line 3", "    | import socket"]
    told = dict(line.split(maxsplit=1) for line in lines[2:])
    assert set(told) == {"construct", "reason", "record"}
    assert "[TG-REQ-001]" in done.err
    assert "--backend era --why not-expressible" in done.err
    assert requests(cli) == [], "only the refusal is stored"
    assert [path.name for path in (workspace(cli) / "handoff/blobs").iterdir()] == [told["record"]]
    again = cli("request", "new", *PURPOSE, "--code", "-", "--json", stdin=BEYOND, code=65).json
    assert (again["id"], again["refusal"]["line"]) == (None, 3)
    assert again["refusal"]["record"] == told["record"]
    assert again["refusal"]["code_sha256"] == sha256_hex(BEYOND)
    cli("audit", "verify")


@pytest.mark.parametrize(
    ("program", "line"),
    [
        (b"import os\n", 1),
        (b"x = 1\ny = open('/etc/passwd')\n", 2),
        (b"eval('1')\n", 1),
        (b"def f():\n    yield 1\n\nlist(f())\n", 2),
        (b"\n\nclass A(dict):\n    pass\n", 3),
        (b"import json\nx = json.loads('1')\nimport numpy\n", 3),
    ],
)
def test_check_finds_the_line(cli: Cli, program: bytes, line: int) -> None:
    done = cli("request", "check", "-", "--json", stdin=program, code=65)
    assert not done.json["expressible"]
    found = done.json["refusal"]
    assert (found["line"], found["kept"]) == (line, True)
    assert found["source"] == program.decode().split("\n")[line - 1]
    assert found["construct"]
    assert found["reason"]


def test_what_is_not_python_is_no_reason_for_another_lane(cli: Cli) -> None:
    slip = cli("request", "check", "-", "--json", stdin=b"x = 1\ndef f(:\n    pass\n", code=65)
    found = slip.json["refusal"]
    assert (found["construct"], found["line"], found["kept"]) == ("not-python", 2, False)
    beyond = cli("request", "check", "-", "--json", stdin=b"def f():\n    yield 1\n", code=65)
    assert beyond.json["refusal"]["kept"], "control: what is beyond Monty is written down"


def test_a_slip_is_a_warning_and_no_refusal(cli: Cli, code: Path) -> None:
    done = cli("request", "check", code)
    assert done.out == "Monty can express it\n"
    assert re.search(r"threegate: warning: line 2, [a-z-]+: .*rows", done.err)
    done = cli("request", "new", *PURPOSE, "--code", code, "--json")
    (warning,) = done.json["warnings"]
    assert warning["line"] == 2
    assert cli("request", "check", code, "--input", "rows").err == "", "control"


def test_check_of_file_draft_and_stored_request(cli: Cli, code: Path, rows: Path) -> None:
    said = "Monty can express it\n"
    assert cli("request", "check", code, "--input", "rows").out == said
    assert cli("request", "check", code, "--input", f"rows={rows}").out == said
    draft = (
        b'---\nformat: "tr/1"\n---\n\n## Purpose\n\nx\n\n## Code\n\n    1 + 1\n\n## Risks\n\nx\n'
    )
    assert cli("request", "check", "-", stdin=draft).out == said
    words = ("request", "new", *PURPOSE, "--code", code, "--input", f"rows={rows}", "--json")
    request_id = cli(*words).json["id"]
    assert cli("request", "check", request_id[:16], "--json").json["expressible"]
    done = cli("request", "check", request_id, "--function", "all", code=2)
    assert "a request says itself what it may use" in done.err
    assert cli("request", "check", draft_of(cli, fetch_request()), code=2).out == ""


def draft_of(cli: Cli, request: registry.Artifact) -> Path:
    return write(cli.base / "fetch.md", registry.emit(request))


def test_escalation_in_the_default_policy_is_denied(cli: Cli, tmp_path: Path) -> None:
    beyond = write(tmp_path / "beyond.py", BEYOND)
    heavy = ("--backend", "era", "--why", "not-expressible")
    done = refused(cli, *PURPOSE, "--code", beyond, *heavy, code=77)
    assert "lane era is not enabled in policy/tool-exec.policy.md:" in done.err


# claim TG-C-108
def test_escalation_needs_montys_refusal_of_this_code(
    cli: Cli, tmp_path: Path, code: Path, rows: Path
) -> None:
    enable_era(cli)
    heavy = ("--backend", "era", "--why", "not-expressible")
    given = ("--input", f"rows={rows}")
    done = refused(cli, *PURPOSE, "--code", code, *given, *heavy, code=65)
    assert "Monty can express this code" in done.err
    assert "[TG-ART-027]" in done.err
    assert "needs the reason" in refused(cli, *PURPOSE, "--code", code, *heavy[:2], code=2).err
    beyond = write(tmp_path / "beyond.py", BEYOND)
    made = cli("request", "new", *PURPOSE, "--code", beyond, *heavy, "--json").json
    assert (made["state"], made["fields"]["backend"]) == ("held", "era")
    why = made["fields"]["why_not_monty"]
    assert (why["reason"], why["refusal"]["line"]) == ("not-expressible", 3)
    assert why["refusal"]["record"] == made["refusal"]["record"]
    # The same request for other code, with the refusal it does not have, is no request.
    raw = cli("request", "show", made["id"], "--raw").raw_out
    moved = raw.replace(b"import socket", b"import struct")
    other = sha256_hex(b"rows = [1]\n\nimport struct\n")
    moved = moved.replace(sha256_hex(BEYOND).encode(), other.encode())
    forged = write(tmp_path / "forged.md", moved)
    assert "TG-ART-027" in cli("admit", forged, code=65).out
    cli("audit", "verify")


def test_a_command_and_files_are_reasons_that_must_hold(cli: Cli, tmp_path: Path) -> None:
    enable_era(cli)
    names = write(tmp_path / "names.txt", b"b\na\n")
    words = ("--backend", "era", "--why", "binary", "--ring", "tools")
    argv = ("--arg", "/usr/bin/sort", "--arg=-r", "--arg", "/in/names")
    made = cli(
        "request", "new", *PURPOSE, *words, *argv, "--input", f"names={names}", "--json"
    ).json
    assert made["fields"]["argv"] == ["/usr/bin/sort", "-r", "/in/names"]
    assert "[TG-ART-021]" in refused(cli, *PURPOSE, *words, "--arg", "bash", code=65).err
    program = write(tmp_path / "plot.py", b"open('/out/t.csv', 'w').write('1')\n")
    files = ("--backend", "era", "--why", "files", "--code", program)
    assert "outputs is empty" in refused(cli, *PURPOSE, *files, code=65).err
    made = cli("request", "new", *PURPOSE, *files, "--output", "t.csv=1KiB", "--json").json
    assert made["fields"]["outputs"] == [{"name": "t.csv", "max_bytes": 1024}]


@pytest.mark.parametrize(
    ("words", "exit_code", "said"),
    [
        (("--limit", "wall_ms=1m"), 77, "wall_ms of 1m is above the 30s of policy/"),
        (("--limit", "wall=1s"), 2, 'no limit is called "wall"'),
        (("--function", "open"), 2, "no external function is called"),
        (("--ring", "python"), 77, 'profile "python" is not offered to monty'),
        (("--input", "rows=missing.json"), 2, "cannot open it: no such file or directory"),
        (("--input", "rows=bad.json"), 65, "not JSON at line 1, column 1"),
        (("--input", "rows=rp-0123456789ab"), 2, "no artifact"),
        (("--why", "files"), 2, "--why goes with --backend era alone"),
        (("--arg", "ls"), 2, "a request has either code or a command"),
        (("--confidentiality", "secret"), 2, "invalid choice"),
        (("--purpose", ""), 2, "--purpose: it is empty"),
        (("--code", "missing.py"), 2, '"missing.py": cannot open it'),
        (("--code", "hidden.py"), 65, "bidi character U+202E in line 2"),
        (("--code", "."), 2, "it is a directory"),
        (("--code", "empty.py"), 2, '"empty.py": it is empty'),
    ],
)
def test_a_mistake_is_one_error_and_stores_nothing(
    cli: Cli, code: Path, words: tuple[str, str], exit_code: int, said: str
) -> None:
    write(cli.base / "bad.json", b"nonsense")
    write(cli.base / "empty.py", b"")
    write(cli.base / "hidden.py", "x = 1\n# \u202e\n".encode())
    done = refused(cli, *PURPOSE, "--code", code, *words, code=exit_code)
    assert said in done.err
    assert done.out == ""


def run_program(cli: Cli, program: bytes) -> tuple[str, str, str]:
    """Ask for, approve and run a program; return request, result and how it ended."""
    request_id = cli("request", "new", *PURPOSE, "--code", "-", "--json", stdin=program).json["id"]
    cli("review", "approve", request_id, "--yes", "--key", key_file(cli.base))
    (ran,) = cli("run", request_id, "--json").json["runs"]
    return request_id, ran["result"], ran["exit"]


# claim TG-C-109
def test_a_run_that_failed_makes_no_request(cli: Cli) -> None:
    enable_era(cli)
    made = []
    for program, ended in (
        (b"1 / 0\n", "error"),
        (b"raise NotImplementedError('use the heavy lane')\n", "error"),
        (b"def f(n):\n    return f(n + 1)\n\nf(0)\n", "limit:recursion"),
        (b"'x' * 300_000\n", "limit:output"),
        (b"[0] * 10**9\n", "limit:memory"),
    ):
        request_id, _, state = run_program(cli, program)
        assert state == ended
        made.append(request_id)
    assert sorted(requests(cli)) == sorted(made), "a failure is a result and nothing more"
    shown = [cli("request", "show", one, "--json").json for one in made]
    assert {(one["state"], one["fields"]["backend"]) for one in shown} == {("done", "monty")}


# claim TG-C-109
def test_a_result_is_data_and_nothing_else(cli: Cli, code: Path) -> None:
    program = b"'import json\\njson.dumps(1)'\n"
    request_id, result_id, state = run_program(cli, program)
    assert state == "ok"
    words = ("request", "new", *PURPOSE, "--code", code, "--input", f"rows={result_id}", "--json")
    fields = cli(*words).json["fields"]
    assert fields["integrity"] == "external", "control: as data it is welcome"

    # not code
    done = refused(cli, *PURPOSE, "--code", result_id, code=2)
    assert "no artifact is code" in done.err
    raw = cli("result", "show", result_id, "--raw").raw_out
    copied = write(cli.base / "copied.py", raw)
    assert "no artifact is code" in refused(cli, *PURPOSE, "--code", copied, code=2).err
    absent = f"rows=res-{'0' * 64}"
    done = refused(cli, *PURPOSE, "--code", code, "--input", absent, code=2)
    assert "no artifact res-" in done.err, "a result must exist before it is asked for"

    # not what FETCH is asked for
    fetching = fetch_request(origin="core", integrity="external", derived_from=(result_id,))
    assert "TG-ART-028" in cli("admit", draft_of(cli, fetching), code=65).out
    own = fetch_request(origin="core", integrity="external")
    assert cli("admit", draft_of(cli, own)).out.startswith("accepted"), "control"

    # not a run
    assert "is not a request" in cli("run", result_id, code=2).out
    done = cli("review", "approve", result_id, "--yes", "--key", key_file(cli.base), code=2)
    assert "is not a request" in done.err
    assert "has run" in cli("run", request_id, code=2).out
    planted = workspace(cli) / "handoff/requests/approved" / f"tr-{result_id[4:]}.md"
    planted.write_bytes(raw)
    planted.chmod(0o444)
    before = cli("result", "list", "--json").json["total"]
    assert "[TG-HND-015]" in cli("run", "--all", code=76).err
    assert cli("result", "list", "--json").json["total"] == before, "nothing ran"


def test_a_function_that_was_not_asked_for_is_named(cli: Cli, tmp_path: Path) -> None:
    calls = write(tmp_path / "calls.py", b"sha256_hex('a')\n")
    said = "hint: `--function sha256_hex` lets the code call it"
    assert said in cli("request", "check", calls).err
    assert cli("request", "check", calls, "--function", "sha256_hex").err == ""
    other = write(tmp_path / "other.py", b"sha256_hax('a')\n")
    found = cli("request", "check", other)
    assert "sha256_hax" in found.err
    assert "hint:" not in found.err
    empty = write(tmp_path / "empty.py", b"")
    assert "it is empty" in cli("request", "check", empty, code=2).err
