"""The command itself: versions, help, exit codes, and what it says when things go wrong."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import PYTHON, Cli, made, write
from tests.support.samples import packet
from threegate import __version__
from threegate.artifacts import registry

HEAVY = {"cryptography", "yaml", "sqlite3", "subprocess", "ctypes", "socket", "shtab"}


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def test_version_by_both_ways_in(cli: Cli) -> None:
    script = Path(sys.executable).with_name("threegate")
    told = subprocess.run([script, "--version"], capture_output=True, check=True, text=True).stdout
    assert told == cli("--version").out == f"threegate {__version__}\n"


def test_help_names_every_command_and_exit_code(cli: Cli) -> None:
    shown = cli("--help").out
    for word in ("init", "validate", "admit", "status", "packet", "policy", "audit", "completion"):
        assert f"\n  {word} " in shown or f"\n    {word} " in shown
    assert "65 artifact rejected" in shown


@pytest.mark.parametrize(
    "argv", [(), ("no-such-command",), ("validate",), ("packet",), ("status", "--no-such-option")]
)
def test_a_wrong_command_line_is_exit_2_in_our_voice(cli: Cli, argv: tuple[str, ...]) -> None:
    done = cli(*argv, code=2)
    assert done.out == ""
    first, second = done.err.splitlines()
    assert first.startswith("threegate: error: ")
    assert first.endswith("[TG-USE-001]")
    assert second.startswith("threegate: hint: `threegate")


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (("fecth",), "did you mean `threegate fetch`?"),
        (("packet", "exprot"), "did you mean `threegate packet export`?"),
        (("zzzz",), "`threegate --help` lists all"),
    ],
)
def test_a_mistyped_command_is_answered_with_what_it_looks_like(
    cli: Cli, argv: tuple[str, ...], hint: str
) -> None:
    told = cli(*argv, code=2).err
    assert f'no command "{argv[-1]}" [TG-USE-001]' in told
    assert hint in told


def test_an_option_is_not_abbreviated(cli: Cli) -> None:
    done = cli("status", "--js", code=2)
    assert "unrecognized arguments: --js" in done.err
    assert "`threegate status --help`" in done.err, "the help of this command, not of all"


def test_hostile_arguments_come_back_spelled_out(cli: Cli) -> None:
    done = cli("status", "\x1b]52;c;ZXZpbA==\x07", code=2)
    assert b"\x1b" not in done.raw_err
    assert "\\u{1b}]52" in done.err


def test_no_workspace_is_exit_69_and_says_how_to_make_one(cli: Cli) -> None:
    done = cli("status", code=69)
    assert "[TG-WS-001]" in done.err
    assert "threegate init" in done.err


def test_version_and_validate_load_nothing_heavy(cli: Cli) -> None:
    file = write(cli.base / "packet.md", registry.emit(packet()))
    for argv in (["--version"], ["validate", str(file)]):
        program = (
            "import sys\nfrom threegate.cli.main import main\n"
            f"assert main({argv!r}) == 0\nprint(*sys.modules)"
        )
        run = [sys.executable, "-c", program]
        shown = subprocess.run(run, capture_output=True, check=True, text=True).stdout
        loaded = {name.partition(".")[0] for name in shown.split()}
        assert "argparse" in loaded, "control: the modules were listed"
        assert not loaded & HEAVY


def test_a_bug_is_exit_70_with_one_line_and_a_traceback_only_on_demand(tmp_path: Path) -> None:
    # A bug on purpose: the command fails with words that somebody else chose.
    broken = """\
import threegate.artifacts.registry as registry
def parse(data):
    raise LookupError("\\x1b]0;owned\\x07")
registry.parse = parse
"""
    cli = Cli(tmp_path).patched(broken)
    file = write(tmp_path / "packet.md", registry.emit(packet()))
    done = cli("validate", file, code=70)
    first, second = done.err.splitlines()
    assert first.startswith("threegate: error: unexpected LookupError at ")
    assert first.endswith("[TG-BUG-001]")
    assert "report" in second
    assert "owned" not in done.err
    loud = cli("validate", file, code=70, env={"THREEGATE_DEBUG": "1"})
    assert "Traceback" in loud.err
    assert "\\u{1b}]0;owned" in loud.err
    assert b"\x1b" not in loud.raw_err


def test_a_reader_that_leaves_is_no_crash(cli: Cli) -> None:
    command = [*PYTHON, "schema", "tool-request"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=cli.env()
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    told = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 141
    assert told == b""


def test_output_that_cannot_be_written_is_exit_74(cli: Cli) -> None:
    with Path("/dev/full").open("wb") as full:
        command = [*PYTHON, "schema", "tool-request"]
        ended = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, env=cli.env(), check=False
        )
    assert ended.returncode == 74
    assert b"[TG-DSK-001]" in ended.stderr
    assert b"Exception ignored" not in ended.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_descriptors_do_not_become_the_log(tmp_path: Path, closed: str) -> None:
    cli = made(tmp_path)
    write(tmp_path / "packet.md", registry.emit(packet()))
    for command in ("admit packet.md", "status", "audit checkpoint"):
        run = ["bash", "-c", f"exec {' '.join(PYTHON)} {command} {closed}"]
        ended = subprocess.run(run, cwd=tmp_path, env=cli.env(), capture_output=True, check=False)
        assert ended.returncode == 0, ended.stderr
    assert cli("audit", "verify", "--json").json["ok"]
    assert cli("packet", "list", "--json").json["total"] == 1


def test_an_interrupt_is_exit_130(cli: Cli) -> None:
    process = subprocess.Popen(
        [*PYTHON, "validate", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=cli.env(),
        cwd=cli.base,
    )
    _wait_until_it_reads(process.pid)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"threegate: interrupted\n")


def test_an_interrupt_is_ignored_where_the_starter_ignores_it(cli: Cli) -> None:
    """A script that starts a command in the background does not want its Ctrl-C to end it."""
    process = subprocess.Popen(
        ["env", "--ignore-signal=INT", *PYTHON, "validate", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=cli.env(),
        cwd=cli.base,
    )
    _wait_until_it_reads(process.pid)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(b"no artifact", timeout=60)
    assert process.returncode == 65, err


def _wait_until_it_reads(pid: int) -> None:
    stack = Path(f"/proc/{pid}/wchan")
    for _ in range(600):
        if "pipe_read" in stack.read_text(encoding="ascii"):
            return
        signal.sigtimedwait([], 0.05)
    pytest.fail("the command never read its input")


def test_a_directory_that_is_gone(cli: Cli) -> None:
    place = cli.base / "gone"
    place.mkdir()
    program = f"import os, sys; os.chdir({str(place)!r}); os.rmdir({str(place)!r})\n"
    program += "from threegate.cli.main import main; sys.exit(main(['status']))"
    run = [sys.executable, "-c", program]
    ended = subprocess.run(run, capture_output=True, env=cli.env(), cwd="/", check=False)
    assert ended.returncode == 2
    assert b"the current directory is gone" in ended.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_names_the_commands(cli: Cli, shell: str) -> None:
    script = cli("completion", shell).out
    assert "quarantine" in script
    assert "--workspace" in script


def test_the_bash_completion_completes(cli: Cli) -> None:
    script = write(cli.base / "completion.bash", cli("completion", "bash").raw_out)
    asked = f"""
        source {script}
        COMP_WORDS=(threegate qua) COMP_CWORD=1
        _shtab_threegate threegate qua threegate
        echo "${{COMPREPLY[@]}}"
    """
    run = ["bash", "-c", asked]
    assert subprocess.run(run, capture_output=True, check=True).stdout == b"quarantine\n"


def test_several_workspaces_and_the_three_ways_to_name_one(tmp_path: Path) -> None:
    base = tmp_path / "Über mir, ein Raum \u51b0"
    base.mkdir()
    for name in ("first one", "zweites ß"):
        Cli(base)("init", base / name)
    first, second = Cli(base, base / "first one"), Cli(base, base / "zweites ß")
    assert first.workspace is not None
    assert second.workspace is not None
    ids = [cli("status", "--json").json["id"] for cli in (first, second)]
    assert len(set(ids)) == 2
    third = Cli(base, environment={"THREEGATE_WORKSPACE": str(first.workspace)})
    assert third("status", "--json").json["id"] == ids[0]
    assert third("-w", second.workspace, "status", "--json").json["id"] == ids[1]
    assert third("status", "--json", "-w", second.workspace).json["id"] == ids[1]
    below = second.workspace / "policy"
    assert Cli(base)("status", "--json", cwd=below).json["id"] == ids[1]


def test_a_workspace_named_and_not_there(cli: Cli) -> None:
    done = cli("-w", "nowhere\x1b[2J", "status", code=69)
    assert b"\x1b" not in done.raw_err
    assert "is not a workspace [TG-WS-001]" in done.err


def test_root_is_refused_in_the_workspace_of_somebody_else(tmp_path: Path) -> None:
    cli = made(tmp_path)
    assert cli.workspace is not None
    cli("status")  # control: as its owner
    if os.geteuid() == 0:
        os.chown(cli.workspace, 65534, 65534)
    else:  # nobody but root can give a file away, so the process takes itself for somebody else
        cli = cli.patched("import os\nos.geteuid = lambda: 65534\n")
    for argv in (("status",), ("admit", "x"), ("audit", "verify"), ("packet", "list")):
        done = cli(*argv, code=69)
        assert "not to you [TG-WS-001]" in done.err
        assert "applies to root too" in done.err
