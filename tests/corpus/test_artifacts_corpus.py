"""Hostile and ordinary files offered as artifacts: rejected, and nothing else happens."""

import os
import stat
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.samples import box, digest, one_of_each, packet, tool_request
from tests.support.vector_reject import line
from tests.support.vectors import CREATED, NONCE, judge
from tests.support.watch import watched
from threegate.artifacts.draft import complete_draft, is_draft
from threegate.artifacts.reasons import ArtifactReason
from threegate.artifacts.registry import FORMATS, emit, parse
from threegate.base.errors import ArtifactRejected
from threegate.base.text import FORBIDDEN
from threegate.base.untrusted import Untrusted

MAX_FILE_BYTES = 8 * 2**20
HOSTILE = ("hostile/yaml", "hostile/xml", "unicode")
# Both stand between letters of several scripts; a packet keeps them.
JOINERS = "\u200c\u200d"


def files(directory: Path) -> Iterator[tuple[str, bytes]]:
    found = 0
    for path in sorted(directory.rglob("*")):
        status = path.lstat()
        if stat.S_ISREG(status.st_mode) and status.st_size < MAX_FILE_BYTES:
            found += 1
            yield str(path.relative_to(directory)), path.read_bytes()
    assert found, f"{directory} holds no file, so nothing was tried"


def refused(data: bytes) -> bool:
    """Tell whether both readers reject `data` with one of our codes; else raise."""
    verdicts = []
    for read in (_parse, _complete):
        try:
            read(data)
        except ArtifactRejected as exc:
            verdicts.append(exc.code.startswith("TG-ART-") and not FORBIDDEN.search(exc.message))
    return verdicts == [True, True]


def _parse(data: bytes) -> None:
    parse(Untrusted(data))


def _complete(data: bytes) -> None:
    is_draft(Untrusted(data))
    complete_draft(Untrusted(data), created=CREATED, nonce=NONCE)


def is_hidden(character: str) -> bool:
    """Say from the Unicode database what our own list of code points says by hand."""
    hides = unicodedata.category(character) in ("Cc", "Cf")
    return hides and character not in JOINERS + "\n\t"


@pytest.mark.parametrize("part", HOSTILE)
def test_hostile_file_offered_as_an_artifact_is_rejected(corpus: Path, part: str) -> None:
    assert judge(emit(packet())) is None, "control: an artifact is accepted"
    assert [name for name, data in files(corpus / part) if not refused(data)] == []


def test_no_file_of_the_corpus_is_an_artifact(corpus: Path) -> None:
    assert [name for name, data in files(corpus) if not refused(data)] == []


def test_no_file_of_the_corpus_gets_in_behind_a_valid_first_line(corpus: Path) -> None:
    for name, data in files(corpus):
        for prefix in FORMATS:
            offered = f'---\nformat: "{prefix}/1"\n'.encode("ascii") + data
            assert judge(offered) is not None, name


def test_hostile_yaml_as_front_matter_is_rejected(corpus: Path) -> None:
    valid = emit(packet())
    front, body = valid.split(b"\n---\n\n", 1)
    first_line = b'---\nformat: "rp/1"\n'
    assert judge(front + b"\n---\n\n" + body) is None, "control: put together again"
    for name, data in files(corpus / "hostile" / "yaml"):
        pasted = data.rstrip(b"\n")
        for start in (b"---\n", first_line, front + b"\n"):
            assert judge(start + pasted + b"\n---\n\n" + body) is not None, name
        before = valid.replace(first_line, first_line + pasted + b"\n", 1)
        assert judge(before) is not None, name


def test_hostile_yaml_as_a_value_is_rejected(corpus: Path) -> None:
    samples = {prefix: emit(artifact) for prefix, artifact in one_of_each().items()}
    for name, data in files(corpus / "hostile" / "yaml"):
        value = data.split(b"\n", 1)[0].partition(b": ")[2]
        if value == b"1":  # the attack of dup_keys and two_docs stands in their second line
            value = data.rstrip(b"\n").partition(b": ")[2]
        for prefix, sample in samples.items():
            for key in FORMATS[prefix].keys[1:]:
                assert judge(line(sample, key, value)) is not None, (name, prefix, key)


def test_unicode_file_as_an_excerpt(corpus: Path) -> None:
    seen = set()
    for name, data in files(corpus / "unicode"):
        text = data.decode("utf-8")
        expected = ArtifactReason.FORBIDDEN_CHARACTER if any(map(is_hidden, text)) else None
        if expected is None and ("<s" in text or "<i" in text):
            expected = ArtifactReason.MARKUP  # #include <stdio.h>
        made = packet(text)
        assert judge(made) is expected, name
        if expected is None:
            assert parse(Untrusted(emit(made))) == made
        seen.add(expected)
    assert {ArtifactReason.FORBIDDEN_CHARACTER, None} <= seen


def test_unicode_file_as_code(corpus: Path) -> None:
    accepted: list[str] = []
    rejected: list[str] = []
    for name, data in files(corpus / "unicode"):
        text = data.decode("utf-8")
        made = tool_request(code=box(text), code_sha256=digest(text))
        hidden = any(map(is_hidden, text))
        assert judge(made) is (ArtifactReason.FORBIDDEN_CHARACTER if hidden else None), name
        if not hidden:
            assert parse(Untrusted(emit(made))) == made
        (rejected if hidden else accepted).append(name)
    assert [name for name in rejected if "homoglyph" in name] == [], "letters, if odd ones"
    assert any("stretched-string" in name for name in rejected)
    assert any("homoglyph" in name for name in accepted)


def test_nothing_else_happens(corpus: Path, tmp_path: Path) -> None:
    offered = [data for part in HOSTILE for _, data in files(corpus / part)]
    for data in offered:  # once unwatched: what Python loads late is loaded now
        assert refused(data)
    with watched() as control:
        os.close(os.open(tmp_path, os.O_RDONLY))
    assert control, "control: an open is seen"
    with watched() as acts:
        verdicts = [refused(data) for data in offered]
    assert acts == []
    assert all(verdicts)
