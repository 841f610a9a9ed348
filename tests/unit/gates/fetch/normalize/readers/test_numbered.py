"""Text files in numbered lines, unified diffs, and passages that look like secrets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.normalization import Got, got, hazards, made, texts
from threegate.artifacts.limits import MAX_EXCERPT_CHARS
from threegate.artifacts.research_packet import ResearchPacket
from threegate.gates.fetch.normalize.readers.numbered import numbered_lines, parts_of_lines
from threegate.gates.fetch.normalize.secrets import count_secrets

COMMIT = "ab" * 20


def of_git(raw: bytes, read_as: str = "text/plain", path: str = "a.py") -> Got:
    return got("git", raw, read_as, role="document", url=f"git:{COMMIT}/{path}", media_type="")


def line_at(packet: ResearchPacket, words: str) -> int:
    """Return the line of some words as a reader of the packet computes it."""
    for label, text in texts(packet).items():
        if words in text:
            first = int(label.split()[1].partition("-")[0])
            return first + text[: text.index(words)].count("\n")
    raise AssertionError("not found")


def test_blank_lines_and_long_files_keep_the_number_of_each_line() -> None:
    lines = [f"value {n}" if n % 7 else "" for n in range(1, 1001)]
    packet = made(of_git(("\n\n\n" + "\n".join(lines)).encode()))
    for number in (1, 198, 199, 201, 400, 999):
        if number % 7:
            assert (
                line_at(packet, f"value {number}\n" if number < 999 else "value 999") == number + 3
            )


@pytest.mark.parametrize("odd", ["\r", "\x0b", "\x0c", "\x85", "\u2028", "\u2029", "\u202e", "<b>"])
def test_other_breaks_and_escapes_do_not_move_lines(odd: str) -> None:
    text = f"one{odd}two\r\n{odd}\r\nthree {odd} four\nlast".encode()
    packet = made(of_git(text))
    assert line_at(packet, "last") == 4


def test_a_line_longer_than_an_excerpt_has_one_number() -> None:
    packet = made(of_git(b"first\n" + b"x" * 50_000 + b" end\nlast\n"))
    labels = [one.label.open_for_display() for one in packet.excerpts]
    assert labels == ["line 1", *["line 2"] * 4, "line 3"]
    assert line_at(packet, "last") == 3


@given(st.text(st.sampled_from("ab <\u202e\u200b\ufe0f\x00\n\r\x0c\U000e0041é"), max_size=3000))
def test_each_part_is_one_excerpt(text: str) -> None:
    parts = parts_of_lines(numbered_lines(text * 12))
    for part in parts:
        body = part.text.open_for_validation()
        assert body.strip()
        longest = sum(4 if char == "<" else 10 if not char.isprintable() else 1 for char in body)
        assert longest <= MAX_EXCERPT_CHARS


def test_a_page_from_the_web_has_no_lines() -> None:
    packet = made(got("url", b"one\ntwo", "text/plain", role="document"))
    assert list(texts(packet)) == ["text"]


DIFF = b"""diff --git a/src/a.py b/src/a.py
--- a/src/a.py
+++ b/src/a.py
@@ -8,3 +10,4 @@
 same
--- looks like a file
++++ this too
+@@ -1 +1 @@
 end
@@ -90 +93,0 @@
-gone
diff --git a/new b/new
--- /dev/null
+++ b/new
@@ -0,0 +1,2 @@
+one
+two
\\ No newline at end of file
"""


def test_hunks_are_named_by_their_file_and_both_sides() -> None:
    found = texts(made(of_git(DIFF, "text/x-diff")))
    assert list(found) == [
        "src/a.py lines 10-13, before: lines 8-10",
        "src/a.py before: line 90",
        "new lines 1-2",
    ]
    first = found["src/a.py lines 10-13, before: lines 8-10"]
    assert "--- looks like a file" in first, "lines of a hunk do not begin another file"
    assert found["new lines 1-2"].endswith("+two\n\\ No newline at end of file")


def test_a_diff_that_lies_about_its_lines_is_still_read() -> None:
    found = made(of_git(b"--- a/x\n+++ b/x\n@@ -1,999999999 +1,999999999 @@\n a\n", "text/x-diff"))
    assert " a" in next(iter(texts(found).values()))


# Written in two pieces, so that no scanner takes the test for a leak.
SECRETS = (
    "-----BEGIN RSA " + "PRIVATE KEY-----",
    "-----BEGIN " + "PRIVATE KEY-----",
    "AKIA" + "IOSFODNN7EXAMPLE",
    "ghp_" + "a1B2" * 9,
    "xoxb-" + "123456789012-abcdefABCDEF",
    "password = '" + "q8Zk2mN4vB7xL1pR" + "'",
    '"api_key": "' + "9f86d081884c7d659a2feaa0c55ad015" + '"',
)
NO_SECRETS = (
    "password = os.environ['DATABASE_PASSWORD']",
    "token: str = next(tokens_of_the_line)",
    "the secret of the ice is its salt content",
    "secret_key = 'changeme-changeme-1234'",
    "-----BEGIN PUBLIC KEY-----",
    "password: xxxxxxxxxxxxxxxx1",
)


@pytest.mark.parametrize("text", SECRETS)
def test_a_secret_is_counted(text: str) -> None:
    assert count_secrets((f"x\n{text}\ny",)) == 1
    assert hazards(made(of_git(f"x\n{text}\ny\n".encode())))["secret-like"] == 1


@pytest.mark.parametrize("text", NO_SECRETS)
def test_words_about_secrets_are_not_counted(text: str) -> None:
    assert count_secrets((text,)) == 0
