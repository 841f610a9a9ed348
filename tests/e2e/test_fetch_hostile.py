"""Documents made to hurt, fetched by the real command in a file system that can be looked over.

Everything is read-only there but one directory and scratch places that begin empty, so what
stays behind cannot hide.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pytest

from tests.support.fetches import Event, names_met, packets, tree
from tests.support.internet import SCRATCH
from tests.support.internet_place import Place, PlaceCli, place_at, settle
from tests.support.origin import OTHER
from tests.support.origins import scholarly, works
from tests.support.origins.hostile import MONSTERS, monster
from tests.support.origins.scholarly import ARXIV_RATES, HURTING, PAGES, PAGES_RULE
from threegate.sandbox.profiles import PROFILES

NOTES = f"https://{PAGES}/field-notes"
URLS = {path: f"https://{PAGES}{path}" for path in MONSTERS}
HOSTS = {
    *(PAGES, "api.crossref.org", "export.arxiv.org", "eutils.ncbi.nlm.nih.gov"),
}
REFERENCES = [*URLS.values(), *HURTING]


@dataclass(frozen=True)
class Run:
    """What one run over every hostile document did, and left."""

    cli: PlaceCli
    code: int
    out: str
    err: str
    seen: list[Event]
    new_files: set[str]
    scratch: str
    control: str


def scratch_of(place: Place) -> str:
    """Return every file in the scratch places; what is mounted in them is not theirs."""
    argv = ["find", *SCRATCH, "-xdev", "-type", "f"]
    return place.run(argv, env={"PATH": "/usr/bin:/bin"}, cwd=Path("/")).out


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    with place_at(scholarly.WORLD, "sealed") as place:
        cli = settle(place, place.directory / "home", PAGES_RULE, *ARXIV_RATES)
        before = tree(place.directory)
        ended = cli("fetch", "--enrich", "none", *REFERENCES, NOTES, code=None)
        new_files = {
            path for path, state in tree(place.directory).items() if before.get(path) != state
        }
        scratch = scratch_of(place)
        place.run(["touch", "/tmp/left"], env={}, cwd=Path("/"))
        yield Run(
            cli,
            ended.code,
            ended.out,
            ended.err,
            place.seen(),
            new_files,
            scratch,
            scratch_of(place),
        )


@pytest.mark.parametrize("reference", REFERENCES)
# claim TG-C-75
def test_hostile_document_ends_in_a_packet_or_a_rejection(run: Run, reference: str) -> None:
    assert NOTES in packets(run.cli), "control: an ordinary page of the same host is a packet"
    assert "Traceback" not in run.err
    (line,) = [line for line in run.out.splitlines() if f" {reference}" in line]
    made = "made rp-" if reference in packets(run.cli) else r"(failed|refused) TG-[A-Z]{3}-[0-9]{3}"
    assert re.match(f"{made}", line), line


# claim TG-C-75
def test_what_was_refused_lies_in_quarantine_with_its_bytes_and_reason(run: Run) -> None:
    found = run.cli("quarantine", "list", "--json", "--limit", "1000").json["items"]
    kept = {item["sha256"]: item["code"] for item in found}
    refused = {}
    for path, url in URLS.items():
        (line,) = [line for line in run.out.splitlines() if f" {url}" in line]
        # By a reader, or because it ended with its box; what was never taken in has no bytes.
        if told := re.match(r"refused (TG-NRM-\d{3}|TG-FET-072) ", line):
            refused[path] = told[1]
    assert {"/bomb.pdf", "/deep.html", "/laughs.xml", "/deep.json"} <= set(refused)
    for path, code in refused.items():
        _, data = monster(path) or ("", b"")
        assert kept[sha256(data).hexdigest()] == code, path
    assert "/calls.html" not in refused, "control: this one is a packet"


# claim TG-C-75, TG-C-137
def test_the_reader_of_hostile_documents_tells_nobody(run: Run) -> None:
    asked = [event["line"].split(" ")[1] for event in run.seen if event["event"] == "request"]
    assert {*MONSTERS, "/field-notes"} <= set(asked), "control: all were asked for"
    assert len(asked) == len(set(asked)) == len(REFERENCES) + 1, "and no more"
    # The proxy asks its name server for the last one, to know networks that translate addresses.
    assert names_met(run.seen) == {*HOSTS, "ipv4only.arpa"}
    assert OTHER not in {event.get("origin") for event in run.seen}


# claim TG-C-138
def test_fetch_leaves_nothing_behind(run: Run) -> None:
    assert run.control == "/tmp/left\n", "control: what is left is found"
    assert run.scratch == ""
    home = run.cli.base
    kept = (f"{home}/ws/", f"{home}/.local/state/", f"{home.parent}/world.jsonl")
    assert any(path.startswith(kept[0]) for path in run.new_files), "control: packets are kept"
    assert [path for path in sorted(run.new_files) if not path.startswith(kept)] == []
    for name, profile in PROFILES.items():
        if name.startswith("fetch-"):
            assert (profile.scratch_bytes, profile.file_bytes) == (0, 0), "no box can write a file"


def test_what_was_read_is_what_the_page_shows(run: Run) -> None:
    page = packets(run.cli)[URLS["/calls.html"]]
    assert works.STORY in "\n".join(text.open_for_display() for text in page.texts)
