"""One program and its arguments: shell sentences, retrieval and other requests are refused."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.samples import digest
from threegate.artifacts.reasons import ArtifactReason
from threegate.artifacts.tool_request import check_command
from threegate.base.errors import ArtifactRejected

REQUEST = "tr-" + digest("x")


def code_of(*argv: str) -> str | None:
    try:
        check_command(list(argv))
    except ArtifactRejected as exc:
        return exc.code
    return None


@pytest.mark.parametrize(
    "argv",
    [
        ("true",),
        ("/usr/bin/git", "log", "--format=%H | %s"),
        ("jq", ".a | .b", "in.json"),
        ("sqlite3", "x.db", "SELECT 1; SELECT 2;"),
        ("pip", "install", "numpy>=1.0"),
        ("python3", "-c", "print(1 > 0)"),
        ("awk", "{print $1 > 2}", "a"),
        ("grep", "-E", "a|b", "notes.sh"),
        ("gcc", "-o", "a.out", "a&b.c"),
        ("cat", "sh"),
        ("./run-it", "--at=12:30"),
        ("env", "A=1", "python3"),
    ],
    ids=" ".join,
)
def test_plain_commands_are_accepted(argv: tuple[str, ...]) -> None:
    assert code_of(*argv) is None


@pytest.mark.parametrize("line", ["ls -l", "ls|wc", "a;b", "a&&b", "a>b", "$(id)", "`id`", "é", ""])
def test_command_line_in_one_string_is_rejected(line: str) -> None:
    assert code_of("ls", "-l") is None
    assert code_of(line) == ArtifactReason.COMMAND.code
    assert code_of(line, "x") == ArtifactReason.COMMAND.code, (
        "more arguments do not make it a program"
    )


@pytest.mark.parametrize(
    "operator", ["|", "||", "|&", "&&", "&", ";", ";;", "|wc", "x;", "x&", "x|"]
)
# claim TG-C-13
def test_shell_pipeline_or_chain_as_command_is_rejected(operator: str) -> None:
    assert code_of("ls", "-", "wc") is None
    assert code_of("ls", operator, "wc") == ArtifactReason.COMMAND.code


@pytest.mark.parametrize("word", ["<<EOF", "<<", "<<-EOF", "<<<", "<<<x"])
def test_heredoc_as_command_is_rejected(word: str) -> None:
    assert code_of("cat", "EOF") is None
    assert code_of("cat", word) == ArtifactReason.COMMAND.code


@pytest.mark.parametrize("word", [">", ">x", ">>x", "2>&1", "<x", "&>x", "<(ls)", ">(ls)", "1<>x"])
def test_redirection_as_command_is_rejected(word: str) -> None:
    assert code_of("ls", "x") is None
    assert code_of("ls", word) == ArtifactReason.COMMAND.code


@pytest.mark.parametrize("word", ["$(id)", "`id`"])
def test_substitution_as_command_is_rejected(word: str) -> None:
    assert code_of("echo", "$HOME") is None
    assert code_of("echo", word) == ArtifactReason.COMMAND.code


@pytest.mark.parametrize(
    "shell",
    [
        "sh",
        "bash",
        "/bin/sh",
        "/usr/bin/zsh",
        "dash",
        "fish",
        "ksh93",
        "bash-5.1",
        "busybox",
        "pwsh",
    ],
)
def test_shell_as_program_is_rejected(shell: str) -> None:
    assert code_of(shell.replace("sh", "py").replace("box", "bee"), "script") is None
    assert code_of(shell, "script") == ArtifactReason.COMMAND.code


@pytest.mark.parametrize(
    "argv",
    [
        ("env", "bash", "script"),
        ("/usr/bin/env", "-S", "bash -c id"),
        ("env", "--split-string=sh -c id"),
        ("env", "A=1", "/bin/sh", "x"),
        ("nohup", "sh", "x"),
        ("timeout", "5", "zsh", "x"),
        ("xargs", "sh", "-c", "id"),
        ("find", ".", "-exec", "sh", "-c", "id", "+"),
        ("anything", "bash", "-c", "id"),
    ],
    ids=" ".join,
)
# claim TG-C-13
def test_shell_started_by_another_program_is_rejected(argv: tuple[str, ...]) -> None:
    assert code_of(*(word.replace("sh", "py") for word in argv)) is None, "control"
    assert code_of(*argv) == ArtifactReason.COMMAND.code


@pytest.mark.parametrize(
    "program", ["curl", "/usr/bin/wget", "wget2", "ssh", "rsync", "nc", "https"]
)
# claim TG-C-13
def test_retrieval_program_is_rejected(program: str) -> None:
    assert code_of(f"{program}ish", "example.org") is None
    assert code_of(program, "example.org") == ArtifactReason.RETRIEVAL.code


@pytest.mark.parametrize(
    "place",
    ["https://example.org", "--url=ftp://x", "git+ssh://x", "FILE:///etc", "git@example.org:x.git"],
)
def test_remote_place_as_argument_is_rejected(place: str) -> None:
    assert code_of("git", "clone", "/in/repository") is None
    assert code_of("git", "clone", place) == ArtifactReason.RETRIEVAL.code


@pytest.mark.parametrize("word", [REQUEST, REQUEST[:15], f"--id={REQUEST}", "fr-" + digest("x")])
def test_argument_that_names_a_request_is_rejected(word: str) -> None:
    assert code_of("cat", REQUEST[:14]) is None, "control: too short to name one"
    assert code_of("cat", word) == ArtifactReason.NAMES_REQUEST.code


@pytest.mark.parametrize(
    "program", ["threegate", "/usr/bin/threegate", "threegate-2", "threegate3"]
)
# claim TG-C-06
def test_threegate_cannot_be_started(program: str) -> None:
    assert code_of("threegates") is None
    assert code_of(program, "run") == ArtifactReason.NAMES_REQUEST.code


@given(st.text(alphabet="aZ0+.-:/@_ é", max_size=40))
def test_remote_place_is_found_wherever_it_stands(argument: str) -> None:
    naive = re.search(r"[A-Za-z][A-Za-z0-9+.-]*://|\A[A-Za-z0-9._-]+@[A-Za-z0-9.-]+:", argument)
    assert (code_of("true", "-", argument) == ArtifactReason.RETRIEVAL.code) == (naive is not None)


@pytest.mark.parametrize("word", ["a" * 4096, "-" * 4095 + "a", "tr-" * 1365, "a." * 2048])
def test_long_arguments_are_read_in_linear_time(word: str) -> None:
    # A request has room for 256 of them: at 30 ms each, one request held the host for 8 s.
    started = time.process_time()
    assert code_of("true", *[word] * 255) is None
    assert time.process_time() - started < 2
    assert (
        code_of("true", f"{word}://x") == ArtifactReason.RETRIEVAL.code
    )  # control: still looked at


@given(st.lists(st.text(max_size=20), max_size=5))
def test_any_arguments_are_accepted_or_rejected(argv: list[str]) -> None:
    code = code_of(*argv)
    assert code is None or code.startswith("TG-ART-")
