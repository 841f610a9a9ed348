"""Inputs of a request: files that are traps, artifacts that are no data, names no code can say."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.policies import altered, policy
from tests.support.samples import analysis, fetch_request, packet
from tests.support.workspaces import files_below, make_workspace, take_in
from threegate.artifacts import registry
from threegate.artifacts.ids import sha256_hex
from threegate.base.errors import ThreeGateError
from threegate.base.untrusted import Untrusted
from threegate.host.request.inputs import Brought, InputFiles, largest_input, read_inputs
from threegate.host.workspace.workspace import Workspace


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    opened = make_workspace(tmp_path)
    yield opened
    opened.close()


def read(ws: Workspace, *stated: str) -> list[Brought]:
    return read_inputs(ws, "monty", stated)


def refused(ws: Workspace, *stated: str) -> ThreeGateError:
    with pytest.raises(ThreeGateError) as caught:
        read(ws, *stated)
    return caught.value


def test_json_stays_as_it_is_and_text_becomes_a_string(ws: Workspace, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b'{"b" : 1}\n')
    (tmp_path / "b.csv").write_bytes('x,"\u00fc"\r\n'.encode())
    found = read(ws, f"b={tmp_path / 'b.csv'}", f"a={tmp_path / 'a.json'}")
    assert [one.name for one in found] == ["a", "b"]
    assert [one.blob for one in found] == [b'{"b" : 1}\n', '"x,\\"\u00fc\\"\\r\\n"'.encode()]
    for one in found:
        assert one.blob is not None
        assert (one.artifact, one.size) == (f"blob-{sha256_hex(one.blob)}", len(one.blob))


def test_artifacts_are_named_and_bring_their_labels(ws: Workspace) -> None:
    made = packet(confidentiality="confidential")
    (packet_id,) = take_in(ws, made)
    (one,) = read(ws, f"p={packet_id[:20]}")
    assert (one.artifact, one.size, one.blob) == (packet_id, len(registry.emit(made)), None)
    assert (one.labels.integrity, one.labels.confidentiality) == ("external", "confidential")


def handed(name: str, filename: str, data: bytes) -> InputFiles:
    return InputFiles(name, filename, Untrusted(data))


def test_a_file_that_was_handed_over_is_its_bytes_and_its_name_is_opened_nowhere(
    ws: Workspace, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("of the operator", "utf-8")
    (named,) = read(ws, f"a={secret}")
    assert named.blob == b'"of the operator"', "control: the command line opens what it names"
    (one,) = read_inputs(ws, "monty", [], [handed("a", str(secret), b"sent")])
    assert one.blob == b'"sent"'
    (one,) = read_inputs(ws, "monty", [], [handed("a", "../x.JSON", b"[1]")])
    assert one.blob == b"[1]", "its end says what it is"
    (one,) = read_inputs(ws, "era", [], [handed("a", "x.json", b"\xff")])
    assert one.blob == b"\xff", "the heavy lane gets files as they are"
    assert one.labels == named.labels, "and no others than a file that was named"


@pytest.mark.parametrize(
    ("name", "filename", "data", "words"),
    [
        ("../a", "a", b"", "the name of an input"),
        ("/etc/passwd", "a", b"", "the name of an input"),
        ("", "a", b"", "the name of an input"),
        ("class", "a", b"", "a word of the language"),
        ("__a", "a", b"", "the interpreter's"),
        ("stated", "a", b"", "given twice"),
        ("a", "a.json", b"[", "not JSON"),
        ("a", "a.txt", b"\xff", "not UTF-8"),
        ("a", "a\u202e.txt", b"\xff", "u{202e}"),
    ],
)
def test_what_was_handed_over_is_checked_like_what_was_named(
    ws: Workspace, name: str, filename: str, data: bytes, words: str
) -> None:
    (packet_id,) = take_in(ws, packet())
    stated = [f"stated={packet_id}"]
    assert len(read_inputs(ws, "monty", stated, [handed("a", "a", b"")])) == 2, "control"
    with pytest.raises(ThreeGateError) as caught:
        read_inputs(ws, "monty", stated, [handed(name, filename, data)])
    assert words in caught.value.message


def test_files_and_artifacts_share_the_room_of_the_lane(ws: Workspace) -> None:
    most = largest_input(ws.bundle)
    assert most == 32 * 2**20, "of the lane that is in use; the other one takes more"
    text = b"a" * (most - 2)  # and its quotes
    assert read_inputs(ws, "monty", [], [handed("a", "a", text)]), "control"
    (packet_id,) = take_in(ws, packet())
    for stated, sent in (([f"p={packet_id}"], text), ([], text + b"a"), ([], b"a" * (most + 1))):
        with pytest.raises(ThreeGateError, match="above the 32MiB of policy/tool-exec") as caught:
            read_inputs(ws, "monty", stated, [handed("a", "a", sent)])
        assert caught.value.code == "TG-POL-001"


def test_a_copy_of_an_artifact_that_was_handed_over_is_refused(ws: Workspace) -> None:
    copy = registry.emit(packet(confidentiality="confidential"))
    with pytest.raises(ThreeGateError, match="it is an artifact"):
        read_inputs(ws, "era", [], [handed("a", "a.txt", copy)])
    assert read_inputs(ws, "era", [], [handed("a", "a.txt", b" " + copy)]), "control"


def test_requests_are_no_data(ws: Workspace) -> None:
    (request_id,) = take_in(ws, fetch_request())
    error = refused(ws, f"p={request_id}")
    assert error.message.endswith("is not data")
    (packet_id,) = take_in(ws, packet())
    assert read(ws, f"p={packet_id}")  # control


def test_policy_says_which_kinds_may_be_read(ws: Workspace) -> None:
    (packet_id,) = take_in(ws, packet())
    made = analysis(
        selection=(packet_id,), derived_from=(packet_id,), claims=(), claim_texts=(), quotes=()
    )
    (analysis_id,) = take_in(ws, made)
    assert read(ws, f"a={analysis_id}")  # control

    def fewer(sections: dict[str, Any]) -> None:
        sections["tool-exec"]["may_read"].remove("analysis")

    narrow = replace(ws, bundle=altered(policy(), fewer).bundle())
    assert refused(narrow, f"a={analysis_id}").code == "TG-POL-001"
    assert read(narrow, f"p={packet_id}")


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.json", b"[1, 2", "not JSON at line 1, column 6"),
        ("a.json", b"", "not JSON at line 1, column 1"),
        ("a.JSON", b"x", "not JSON at line 1, column 1"),
        ("a.json", b'{"a": 1, "b": 2, "a": 3}', 'key "a" stands twice in one object'),
        ("a.json", b'{"x": [NaN]}', "NaN is not JSON"),
        ("a.json", b"-Infinity", "-Infinity is not JSON"),
        ("a.json", b"[1e999]", "a number larger than any float"),
        ("a.json", b"9" * 5000, "a number with too many digits"),
        ("a.json", b'["\\ud800"]', "half a surrogate pair"),
        ("a.json", b'{"\\udc00": 1}', "half a surrogate pair"),
        ("a.json", b"[" * 100_000, "nested more than 100 deep"),
        ("a.json", b"[" * 101 + b"]" * 101, "nested more than 100 deep"),
        ("a.json", b"\xef\xbb\xbf[]", "not JSON at line 1, column 1"),
        ("a.json", b'["\xff"]', "not UTF-8 at byte 2"),
        ("a.json", b"[" + b"[]," * 2_000_000 + b"1]", "more than 2000000 lists and objects"),
        ("a.csv", b"a\xff", "not UTF-8 at byte 1"),
    ],
)
def test_bad_file_is_one_clear_error(
    ws: Workspace, tmp_path: Path, name: str, data: bytes, words: str
) -> None:
    path = tmp_path / name
    path.write_bytes(b"[" * 100 + b"]" * 100 if name.lower().endswith("json") else b"good")
    assert read(ws, f"x={path}"), "control"
    path.write_bytes(data)
    error = refused(ws, f"x={path}")
    assert error.code == "TG-REQ-002"
    assert error.message.startswith("--input x=")
    assert error.message.endswith(words)


def test_what_is_no_regular_file_is_refused_without_waiting(ws: Workspace, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert refused(ws, f"x={tmp_path / 'fifo'}").code == "TG-USE-004"
    assert refused(ws, "x=/dev/zero").code == "TG-USE-004"
    error = refused(ws, f"x={tmp_path}")
    assert (error.code, error.hint) == ("TG-USE-003", "name one file in it")
    assert refused(ws, "x=rp-0123").hint.startswith("an id is its kind")


def test_copy_of_an_artifact_does_not_lose_its_labels(ws: Workspace, tmp_path: Path) -> None:
    copy = tmp_path / "copy.txt"
    copy.write_bytes(registry.emit(packet(confidentiality="confidential")))
    error = refused(ws, f"x={copy}")
    assert "it is an artifact" in error.message
    copy.write_bytes(b"---\nnot one\n")
    assert read(ws, f"x={copy}")  # control


def test_inputs_together_are_bounded_by_policy(ws: Workspace, tmp_path: Path) -> None:
    half = tmp_path / "half.txt"
    half.write_bytes(b"x" * (16 * 2**20 - 2))
    assert len(read(ws, f"a={half}", f"b={half}")) == 2, "control: exactly 32 MiB"
    half.write_bytes(b"x" * (16 * 2**20 - 1))
    error = refused(ws, f"a={half}", f"b={half}")
    assert error.code == "TG-POL-001"
    assert "above the 32MiB of policy/tool-exec.policy.md:" in error.message
    half.write_bytes(b"x" * (33 * 2**20))
    assert refused(ws, f"a={half}").code == "TG-POL-001"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("class", "a word of the language"),
        ("a-b", "not a Python identifier"),
        ("1a", "not a Python identifier"),
        ("\u00e4", "not a Python identifier"),
        ("a" * 65, "65 characters"),
    ],
)
def test_name_that_no_code_can_say_is_refused(
    ws: Workspace, tmp_path: Path, name: str, words: str
) -> None:
    (tmp_path / "x").write_bytes(b"x")
    before = files_below(ws.root)
    assert words in refused(ws, f"{name}={tmp_path / 'x'}").message
    assert read(ws, f"{'a' * 64}={tmp_path / 'x'}"), "control"
    assert files_below(ws.root) == before


def test_name_given_twice_is_refused(ws: Workspace, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"x")
    assert "given twice" in refused(ws, f"a={tmp_path / 'x'}", f"a={tmp_path / 'x'}").message
