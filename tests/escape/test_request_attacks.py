"""Attacks on what comes before a run: documents, review and the labels of what is brought in."""

import time
from pathlib import Path

import pytest

from tests.support.requests import live_workspace
from tests.support.workspaces import keep_blob
from threegate.base.errors import UsageError
from threegate.base.untrusted import Untrusted
from threegate.handoff import states
from threegate.host.request.inputs import NotADocument, check_name, document_of, read_inputs
from threegate.host.review.characters import exposed, spelled
from threegate.host.review.code_flags import code_flags, lex

MOST_SECONDS = 10.0  # of the processor; the slowest takes a tenth of it, by the square minutes
CODE_CHARS = 256 * 1024


def _flags(code: str) -> set[str]:
    lexed = lex(code)
    found = code_flags(
        code.split("\n"), lexed, functions=(), inputs=(), importable=frozenset({"a"})
    )
    return {flag.name for flag in found}


@pytest.mark.parametrize(
    ("part", "flag"),
    [
        ("import a\n", "import"),
        ("import a;", "import"),
        (":from ", "unreadable"),
        ("BEGIN ", "long-line"),
    ],
)
def test_review_of_a_hostile_program_takes_time_by_its_length(part: str, flag: str) -> None:
    code = "'" * (part == "BEGIN ") + part * (CODE_CHARS // len(part))
    started = time.process_time()
    assert flag in _flags(code)
    assert time.process_time() - started < MOST_SECONDS
    assert "credential" in _flags("x = 'BEGIN OPENSSH PRIVATE'"), "control: still looked for"


def test_a_document_with_a_million_keys_is_refused_at_once() -> None:
    keys = ",".join(f'"{n}":1' for n in range(1_000_000))
    started = time.process_time()
    with pytest.raises(NotADocument, match='key "999999" stands twice'):
        document_of("x.json", Untrusted(b"{" + keys.encode() + b',"999999":2}'))
    assert time.process_time() - started < MOST_SECONDS
    whole = b"{" + keys.encode() + b"}"
    assert document_of("x.json", Untrusted(whole)) == whole, "control: one key less is taken"


def test_raw_bytes_of_the_workspace_do_not_come_in_as_a_file_without_labels(
    tmp_path: Path,
) -> None:
    ws = live_workspace(tmp_path)
    secret = b'"confidential"'
    inside = ws.root / states.BLOBS / keep_blob(ws, secret)
    (tmp_path / "link").symlink_to(inside)
    for name in (inside, tmp_path / "link", ws.root / "policy" / ".." / inside):
        with pytest.raises(UsageError) as refused:
            read_inputs(ws, "monty", [f"x={name}"])
        assert "it lies in the workspace" in refused.value.message
    (tmp_path / "own").write_bytes(secret)
    (one,) = read_inputs(ws, "monty", [f"x={tmp_path / 'own'}"])
    assert one.blob is not None, "control: a file of the operator's is taken"


@pytest.mark.parametrize("sign", ["\u01c3", "\u1429", "\u30fc", "\u4e00", "\u0387"])
def test_a_letter_that_passes_for_a_sign_is_spelled_out(sign: str) -> None:
    code = f"kept = a{sign}=b"
    compile(code, "", "exec")  # control: two names get the value of b, whatever it looks like
    assert exposed(code, code=True) == f"kept = a{spelled(sign)}=b"


def test_a_syllable_that_passes_for_a_letter_is_spelled_out() -> None:
    assert exposed("\u144cser = 1", code=True) == "\\u{144c}ser = 1"
    assert exposed("\u144c\u1541 = 1", code=True) == "\u144c\u1541 = 1", (
        "control: a word of its own"
    )


def test_signs_of_a_script_are_letters_where_they_are_alone() -> None:
    line = "title = '\u30c7\u30fc\u30bf \u4e00\u89a7'"
    assert exposed(line, code=True) == line
    assert exposed("a\U00013430b", code=True) == "a\\u{13430}b", "what joins others is not shown"


def test_a_name_that_is_the_interpreter_s_is_refused_before_a_use_is_spent() -> None:
    for name in ("__name__", "__builtins__", "class"):
        with pytest.raises(UsageError, match="no input can be called"):
            check_name(name)
    check_name("_rows")  # control
