"""Documents: generated blocks are compared, links lead somewhere, every page is in the index."""

import re
from pathlib import Path

import pytest

from scripts import docs_sync

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def block(body: str, marker: str = "shout hello") -> str:
    return f"before\n<!-- generated: {marker} -->\n{body}<!-- end -->\nafter\n"


def shout(argument: str) -> str:
    return f"{argument.upper()}!\n"


def render(text: str) -> str:
    return docs_sync.render(text, {"shout": shout})


def test_a_block_is_filled_and_the_rest_is_kept() -> None:
    assert render(block("old\nlines\n")) == block("HELLO!\n")
    assert render(block("")) == block("HELLO!\n")


def test_a_filled_block_stays_as_it_is() -> None:
    assert render(block("HELLO!\n")) == block("HELLO!\n")


def test_two_blocks_are_two_blocks() -> None:
    text = block("", "shout a") + block("", "shout b")
    assert render(text) == block("A!\n", "shout a") + block("B!\n", "shout b")


def test_an_argument_may_be_missing() -> None:
    assert render(block("", "shout")) == block("!\n", "shout")


def test_an_unknown_generator_is_an_error() -> None:
    with pytest.raises(docs_sync.SyncError, match="no generator is called whisper"):
        render(block("", "whisper hello"))


@pytest.mark.parametrize(
    "text",
    [
        "<!-- generated: shout hello -->\nnever closed\n",
        "<!-- generated: shout hello-->\nmisspelt\n<!-- end -->\n",
        "<!-- generated: SHOUT -->\nmisspelt\n<!-- end -->\n",
    ],
)
def test_a_broken_marker_is_an_error_not_a_block_less(text: str) -> None:
    with pytest.raises(docs_sync.SyncError, match="not closed, or its marker is misspelt"):
        render(text)


def test_check_reports_and_changes_nothing(tmp_path: Path) -> None:
    page = tmp_path / "docs" / "deep" / "page.md"
    page.parent.mkdir(parents=True)
    page.write_text(block("old\n"), "utf-8")
    (finding,) = docs_sync.sync(tmp_path, {"shout": shout}, check=True)
    assert "-old" in finding
    assert "+HELLO!" in finding
    assert page.read_text("utf-8") == block("old\n")
    assert docs_sync.sync(tmp_path, {"shout": shout}, check=False) == []
    assert page.read_text("utf-8") == block("HELLO!\n")
    assert docs_sync.sync(tmp_path, {"shout": shout}, check=True) == []


def test_a_page_that_cannot_be_filled_is_reported_when_writing_too(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(block("", "whisper"), "utf-8")
    wanted = ["README.md: no generator is called whisper"]
    assert docs_sync.sync(tmp_path, {"shout": shout}, check=False) == wanted


def test_help_is_what_the_command_prints() -> None:
    shown = docs_sync.help_block("")
    assert shown.startswith("```console\n$ threegate --help\nusage: threegate")
    assert "--version" in shown


def test_the_readme_is_a_landing_page_with_a_picture() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.splitlines()) <= 120
    assert "](docs/pictures/console.png)" in text
    assert (ROOT / "docs/pictures/console.png").stat().st_size < 150_000
    for command in ("init", "fetch", "ask", "review", "run", "report"):
        assert f"\n    threegate {command}" in text, command


def test_the_index_names_every_page() -> None:
    pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    assert len(pages) > 40, "control: pages were found"
    named = set(LINK.findall((DOCS / "README.md").read_text("utf-8")))
    below = {name for name in pages if name.startswith("decisions/")} - {"decisions/README.md"}
    assert pages - below - {"README.md"} - named == set()


def test_every_link_to_a_file_leads_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "src").rglob("*.md")]
    links = [(page, link) for page in pages for link in LINK.findall(page.read_text("utf-8"))]
    ours = [(page, link) for page, link in links if "://" not in link and not link.startswith("#")]
    assert len(ours) > 100, "control: links were found"
    lost = [f"{page}: {link}" for page, link in ours if not (page.parent / link).exists()]
    assert lost == []


def test_the_glossary_has_at_most_forty_words_in_order_and_each_once() -> None:
    rows = re.findall(
        r"^\| ([^|]+) \| [^|]+ \|$", (DOCS / "glossary.md").read_text("utf-8"), re.MULTILINE
    )
    words = rows[1:]
    assert 20 < len(words) <= 40
    assert words == sorted(set(words), key=str.casefold)
