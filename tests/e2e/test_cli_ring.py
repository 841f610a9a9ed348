"""ring: what would be refused before approval, what was refused after a run, and a draft for it."""

from pathlib import Path

import pytest

from tests.e2e.test_heavy_run import approved, enable, lane
from tests.support import samples
from tests.support.cli import Cli, made, write
from tests.support.images import kept
from tests.unit.host.images.test_contents import layer
from threegate.artifacts import registry
from threegate.artifacts.ids import sha256_hex
from threegate.host.images.choice import Sources
from threegate.host.images.lock import SHIPPED, parse_lock
from threegate.host.images.manifest import agent_digest

FOREIGN = b"""\
interpreter_ring:
  allowed_imports: [pandas, numpy]
  denied_imports: [requests, urllib3]
  executor_network: tappass-only
  allowed_binaries: [/usr/bin/git]
  denied_patterns: ["rm -rf", "curl"]
"""
CODE = b"""\
import json
for name in ("sqlite3", "socket"):
    try:
        __import__(name)
    except ImportError as exc:
        print(exc)
open("/out/rows.json", "w").write(json.dumps(1))
"""


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return made(tmp_path)


def test_why_shows_each_import_with_its_rule_before_anybody_approves(cli: Cli) -> None:
    program = write(cli.base / "p.py", b"import json\nfrom math import pi\njson.dumps(pi)\n")
    asked = cli("request", "new", "--purpose", "x", "--code", program, "--ring", "pure", "--json")
    found = cli("ring", "why", asked.json["id"], "--json").json
    assert (found["executor"], found["profile"]["profile"]) == ("monty", "pure")
    told = [
        (one["what"], one["argument"], one["line"], one["allowed"]) for one in found["foreseen"]
    ]
    assert told == [
        ("import", "json", 1, True),
        ("import", "math", 2, True),
        ("network", "none", 0, True),
    ]
    shown = cli("ring", "why", asked.json["id"]).out
    assert "allowed  import" in shown
    assert "policy/tool-exec.policy.md:" in shown
    assert "interpreter ring, profile pure" in cli("review", "show", asked.json["id"]).out


# claim TG-C-245
def test_code_under_a_profile_its_executor_cannot_enforce_is_refused_and_nothing_is_stored(
    cli: Cli,
) -> None:
    assert cli.workspace is not None
    enable(cli)
    program = write(cli.base / "p.py", b"print(1)\n")
    asked = ["request", "new", "--purpose", "x", "--backend", "era", "--why", "files"]
    asked += ["--code", str(program), "--output", "rows.json=1KiB"]
    lines = (cli.workspace / "policy" / "tool-exec.policy.md").read_text("utf-8").splitlines()
    told = cli(*asked, "--ring", "tools", code=77).err
    rule = '    denied_patterns: ["curl"'
    (line,) = [number for number, text in enumerate(lines, 1) if text.startswith(rule)]
    assert f"policy/tool-exec.policy.md:{line}" in told
    assert "heavy-python does not see the commands of its code" in told
    assert cli("request", "list", "--json").json["items"] == []
    control = cli(*asked, "--ring", "python", "--json").json["id"]
    assert [one["id"] for one in cli("request", "list", "--json").json["items"]] == [control]


def command(*words: str, ring: str = "tools") -> list[str]:
    asked = ["request", "new", "--purpose", "x", "--backend", "era", "--why", "binary"]
    return [*asked, "--ring", ring, *(f"--arg={word}" for word in words)]


# claim TG-C-281
def test_a_denied_command_is_refused_before_anybody_is_asked_with_file_and_line(cli: Cli) -> None:
    assert cli.workspace is not None
    policy = cli.workspace / "policy" / "tool-exec.policy.md"
    enable(cli)
    asked = cli(*command("sort", "/in/rows"), "--json").json["id"]  # control
    lines = policy.read_text("utf-8").splitlines()
    for words, rule, reason in (
        (("sort", "/in/rows", "curl"), '    denied_patterns: ["curl"', 'pattern "curl" is denied'),
        (("sort", "--comp", "sh", "/in/rows"), '    denied_patterns: ["curl"', "is denied"),
        (("diff", "-l", "/in/a", "/in/b"), "  comparing:", 'argument rule comparing refuses "-l"'),
        (("/usr/bin/id",), "    allowed_binaries: [/usr/bin/cmp", "is not allowed"),
    ):
        told = cli(*command(*words), code=77).err
        (line,) = [number for number, text in enumerate(lines, 1) if text.startswith(rule)]
        assert f"denied by policy/tool-exec.policy.md:{line}" in told
        assert reason in told
    assert [one["id"] for one in cli("request", "list", "--json").json["items"]] == [asked]
    # What was asked for before the rules became stricter: explained, and not to be approved.
    assert "no rule of profile tools refuses" in cli("request", "check", asked).out
    assert cli("ring", "why", asked).out.count("allowed ") == 3
    text = policy.read_text("utf-8").replace(
        'denied_patterns: ["curl", "rm', 'denied_patterns: ["sort /in/rows", "rm'
    )
    policy.write_text(text, "utf-8")
    cli("policy", "apply", "--yes")
    (line,) = [
        number
        for number, one in enumerate(text.splitlines(), 1)
        if "sort /in/rows" in one and "denied_p" in one
    ]
    place = f"policy/tool-exec.policy.md:{line}"
    refused = cli("request", "check", asked, code=77).err
    assert place in refused
    assert "TG-RNG-004" in refused
    found = cli("ring", "why", asked, "--json", code=77).json["foreseen"]
    shown = [(one["what"], one["allowed"], one["rule"], one["place"]) for one in found]
    assert ("command", False, "denied_patterns", place) in shown
    assert place in cli("review", "approve", asked, "--yes", code=77).err


def image_of_this_program(cli: Cli, *programs: str, **links: str) -> None:
    """Put an image with these files in the place of programs where the command finds it."""
    files: dict[str, bytes | str] = {f"usr/bin/{name}": b"x" for name in programs}
    files |= {f"usr/bin/{name}": target for name, target in links.items()}
    said = {
        "lock_sha256": parse_lock(SHIPPED.read_bytes()).digest,
        "agent_sha256": agent_digest(Sources.usual().read().agent),
    }
    layers = {"base.erofs": layer(files), "agent.erofs": layer({})}
    kept(cli.base / ".cache/threegate/images", said, **layers)


# claim TG-C-382
def test_a_program_that_the_image_lacks_or_links_is_said_before_anybody_approves(cli: Cli) -> None:
    assert cli.workspace is not None
    enable(cli)
    asked = cli(*command("sort", "/in/rows"), "--json").json["id"]
    assert cli("ring", "why", asked).out.count("missing") == 0, "control: without an image"
    names = ("cmp", "comm", "cut", "diff", "head", "join", "sha256sum", "sort", "tail", "uniq")
    image_of_this_program(cli, *names, wc="sort")
    policy = (cli.workspace / "policy" / "tool-exec.policy.md").read_text("utf-8").splitlines()
    (line,) = [number for number, text in enumerate(policy, 1) if "/usr/bin/wc]" in text]
    found = cli("ring", "why", asked, "--json", code=77).json["foreseen"]
    (one,) = [one for one in found if one["what"] == "missing"]
    assert (one["argument"], one["rule"]) == ("/usr/bin/wc", "allowed_binaries")
    assert one["place"] == f"policy/tool-exec.policy.md:{line}"
    assert "refused  missing" in cli("ring", "why", asked, code=77).out
    refused = cli("request", "check", asked, code=77).err
    assert "the image has no program /usr/bin/wc, or it is a link" in refused
    assert f"policy/tool-exec.policy.md:{line}" in refused


# claim TG-C-382
def test_an_image_with_all_programs_is_no_reason_to_say_anything(cli: Cli) -> None:
    enable(cli)
    names = (
        "cmp",
        "comm",
        "cut",
        "diff",
        "head",
        "join",
        "sha256sum",
        "sort",
        "tail",
        "uniq",
        "wc",
    )
    image_of_this_program(cli, *names)
    asked = cli(*command("sort", "/in/rows"), "--json").json["id"]
    assert cli("ring", "why", asked).out.count("allowed ") == 3
    assert "no rule of profile tools refuses" in cli("request", "check", asked).out


def test_a_foreign_ring_becomes_a_profile_to_review(cli: Cli) -> None:
    path = write(cli.base / "their.yaml", FOREIGN)
    shown = cli("ring", "import", path, "--name", "theirs").out
    assert shown.startswith("  theirs:\n    allowed_imports: [numpy, pandas]\n")
    assert "executor_network: gateway" in shown
    write(path, FOREIGN.replace(b"tappass-only", b"all"))
    assert "their.yaml:4" in cli("ring", "import", path, code=78).err


def test_only_what_was_refused_something_can_be_learned_from(cli: Cli) -> None:
    program = write(cli.base / "p.py", b"1 + 1\n")
    asked = cli("request", "new", "--purpose", "x", "--code", program, "--json").json["id"]
    assert "only a tool result" in cli("ring", "learn", asked, code=2).err
    cli("review", "approve", asked, "--yes")
    (run,) = cli("run", asked, "--json").json["runs"]
    assert "refused nothing" in cli("ring", "learn", run["result"], code=2).err
    assert "only a tool request" in cli("ring", "why", run["result"], code=2).err


# claim TG-C-250
def test_what_monty_has_not_is_not_learned_and_said_so(cli: Cli) -> None:
    # Written by somebody else: `request new` would have told its author.
    code = "import os\n1\n"
    asked = samples.tool_request(
        code=samples.box(code),
        code_sha256=sha256_hex(code.encode()),
        functions=(),
        inputs=(),
        profile="pure",
    )
    path = write(cli.base / "tr.md", registry.emit(asked))
    cli("admit", path)
    request_id = registry.id_of(asked)
    cli("review", "approve", request_id, "--yes")
    (run,) = cli("run", request_id, "--json", code=None).json["runs"]
    told = cli("ring", "learn", run["result"], code=2).err
    assert "there is nothing to learn: the lane cannot import os" in told


@pytest.mark.slow
# claim TG-C-250
def test_a_denied_run_is_recorded_and_learned_from_and_its_draft_applies(tmp_path: Path) -> None:
    cli = lane(tmp_path)
    assert cli.workspace is not None
    request_id = approved(cli, CODE)
    foreseen = cli("ring", "why", request_id, "--json").json["foreseen"]
    assert [one["argument"] for one in foreseen] == ["json", "none"], "no statement, not foreseen"
    (run,) = cli("run", request_id, "--json").json["runs"]
    assert run["exit"] == "ok"
    fields = cli("result", "show", run["result"], "--json").json["fields"]
    found = [(one["rule"], one["argument"], one["line"]) for one in fields["violations"]]
    assert found == [("allowed_imports", "sqlite3", 4), ("denied_imports", "socket", 4)]
    assert all(one["place"].startswith("policy/tool-exec.") for one in fields["violations"])
    done = cli("ring", "learn", run["result"], "--name", "tables")
    assert "socket is denied by name, and stays so" in done.err
    assert "+    allowed_imports: [json, sqlite3]" in done.out
    policy = cli.workspace / "policy" / "tool-exec.policy.md"
    before = policy.read_bytes()
    assert cli("policy", "diff").out == "no difference\n", "nothing was written"
    learned = cli("ring", "learn", run["result"], "--name", "tables", "--json").json
    text = before.decode().replace(
        "\ninterpreter_ring:\n", f"\ninterpreter_ring:\n{learned['text']}\n"
    )
    policy.write_text(
        text.replace("profiles: [python, tools]", "profiles: [python, tables, tools]")
    )
    cli("policy", "apply", "--yes")
    program = write(cli.base / "again.py", CODE)
    words = ["request", "new", "--purpose", "x", "--code", str(program), "--backend", "era"]
    words += ["--why", "files", "--output", "rows.json=64KiB", "--ring", "tables", "--json"]
    words += ["--limit", "memory_bytes=192MiB", "--limit", "wall_ms=240s"]
    again = cli(*words).json["id"]
    cli("review", "approve", again, "--yes")
    (run,) = cli("run", again, "--json").json["runs"]
    fields = cli("result", "show", run["result"], "--json").json["fields"]
    assert [one["argument"] for one in fields["violations"]] == ["socket"]
