"""What a newcomer meets in the first hour: exit codes and hints that say the right thing."""

from pathlib import Path

import pytest

from tests.support.cli import Cli, made, write
from tests.support.samples import packet
from threegate.artifacts import registry
from threegate.artifacts.registry import MAX_ARTIFACT_BYTES

LISTED, UNLISTED = "doi:10.5555/12345678", "https://publisher.example/paper"
PDF = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"
BOOK = "@book{b, title={A book without a number}}\n"


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return made(tmp_path)


# claim TG-C-471
def test_a_dry_run_exits_as_policy_would_let_the_run(cli: Cli) -> None:
    assert cli("fetch", "--dry-run", LISTED).err.endswith("nobody was contacted\n"), "control"
    done = cli("fetch", "--dry-run", UNLISTED, code=77)
    assert "refused url https://publisher.example/paper" in done.out
    done = cli("fetch", "--dry-run", LISTED, UNLISTED, code=77)
    assert "of 2 references, 1 would be refused" in done.err
    run = cli("fetch", UNLISTED, code=77)  # refused before anything is started
    assert "TG-FET-073" in run.out


# claim TG-C-472
def test_an_entry_without_an_identifier_is_told_and_counts(cli: Cli) -> None:
    write(cli.base / "good.bib", b"@article{a, doi={10.5555/12345678}}\n")
    write(cli.base / "mixed.bib", b"@article{a, doi={10.5555/12345678}}\n" + BOOK.encode())
    cli("fetch", "--dry-run", "-f", "good.bib")  # control
    done = cli("fetch", "--dry-run", "-f", "mixed.bib", code=65)
    assert "mixed.bib, line 2: an entry without DOI, arXiv id, PubMed id or URL" in done.err
    assert "not fetched: 1 entry without a usable identifier" in done.out
    told = cli("fetch", "--dry-run", "--json", "-f", "mixed.bib", code=65).json
    why = "an entry without DOI, arXiv id, PubMed id or URL"
    assert told["unusable"] == [{"file": "mixed.bib", "line": 2, "reason": why}]


def test_a_second_name_that_is_wrong_loses_no_entry(cli: Cli) -> None:
    entry = b"@article{a, doi={10.5555/12345678}, pmid={none}}\n"
    write(cli.base / "named.bib", entry)
    done = cli("fetch", "--dry-run", "-f", "named.bib")
    assert "named.bib, line 1" in done.err, "control: it is told"


@pytest.mark.parametrize("size", [0, MAX_ARTIFACT_BYTES], ids=["small", "larger than any artifact"])
# claim TG-C-474
def test_a_pdf_is_called_a_pdf_and_is_not_told_to_change_its_encoding(cli: Cli, size: int) -> None:
    write(cli.base / "garnet.pdf", PDF + b"0" * size)
    done = cli("admit", "garnet.pdf", code=65)
    assert "garnet.pdf: a PDF is not an artifact" in done.out
    assert "`threegate fetch` retrieves a paper" in done.out
    assert "UTF-8" not in done.out
    kept = cli("quarantine", "list", "--json").json["total"]
    assert kept == (0 if size else 1), "what was refused is kept, unless it was too large to read"
    write(cli.base / "packet.md", registry.emit(packet()))
    cli("admit", "packet.md")  # control


def test_a_line_that_is_not_indented_is_named(cli: Cli) -> None:
    lines = registry.emit(packet()).decode().split("\n")
    cli("validate", write(cli.base / "good.md", "\n".join(lines).encode()))  # control
    at = max(number for number, line in enumerate(lines) if line.startswith("    "))
    lines[at:at] = ["    one", "", "    two"]
    done = cli("validate", write(cli.base / "bad.md", "\n".join(lines).encode()), code=65)
    assert f"text that is not indented by four spaces, line {at + 2}" in done.out + done.err
    assert "empty lines too" in done.out + done.err


@pytest.mark.parametrize("url", ["https://127.0.0.1/", "https://[::1]/", "https://localhost/"])
def test_an_address_is_not_a_matter_of_policy(cli: Cli, url: str) -> None:
    done = cli("fetch", url, code=None)
    said = done.out + done.err
    assert done.code in (2, 77)
    assert "fetch.policy.md" not in said
    assert "policy/fetch.policy.md" in cli("fetch", UNLISTED, code=77).out, "control"


def test_a_workspace_without_sources_says_so(cli: Cli) -> None:
    done = cli("ask", "--extractive", "What is the density of ice?", code=2)
    assert "there are no sources here yet" in done.err
    assert "threegate fetch" in done.err
    cli("admit", "-", stdin=registry.emit(packet()))
    done = cli("ask", "--extractive", "zzz qqq", code=None)
    assert "no sources here yet" not in done.err, "control"


def test_a_policy_file_that_is_missing_can_be_had_from_a_new_workspace(cli: Cli) -> None:
    assert cli.workspace is not None
    path = cli.workspace / "policy/core.policy.md"
    path.unlink()
    done = cli("policy", "check", code=78)
    assert "`threegate init DIR` writes them all" in done.err
    cli("init", "another")
    (cli.base / "another/policy/core.policy.md").rename(path)
    cli("policy", "check")  # control: the hint is enough


@pytest.mark.parametrize("argv", [("--foo",), ("key", "--foo"), ("--foo", "status")])
def test_an_unknown_option_is_named(cli: Cli, argv: tuple[str, ...]) -> None:
    assert "unrecognized arguments: --foo" in cli(*argv, code=2).err
    assert "required: COMMAND" in cli("key", code=2).err, "control"


# claim TG-C-475
def test_an_id_of_few_digits_is_refused_with_the_reason(cli: Cli) -> None:
    cli("admit", "-", stdin=registry.emit(packet()))
    whole = registry.id_of(packet())
    cli("packet", "show", whole[: len("rp-") + 12])  # control
    done = cli("packet", "show", whole[: len("rp-") + 11], code=2)
    assert "is too short for an id" in done.err
    assert "give 12 digits" in done.err
