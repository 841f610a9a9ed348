"""Reading lists in, bibliographies out, packets made again, keys unseen: on the test internet."""

import json
import secrets
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.cli import write
from tests.support.fetches import packet_ids, packets, requests
from tests.support.internet_place import Place, PlaceCli, place_at, settle
from tests.support.origins import scholarly, works
from tests.support.samples import box
from threegate.artifacts import registry
from threegate.base.untrusted import Untrusted
from threegate.host.bibliography.reader import read_list

ARTICLE = f"doi:{works.ARTICLE.doi}"
RETRACTED = f"doi:{works.RETRACTED.doi}"
PREPRINT = f"arxiv:{works.PREPRINT.arxiv}"
BIBTEX = f"""
@article{{one, title = {{Ice}}, doi = {{{(works.ARTICLE.doi or "").upper()}}}}}
@article{{two, doi = {{https://doi.org/{works.RETRACTED.doi}}}}}
@misc{{three, eprint = {{{works.PREPRINT.arxiv}}}, archiveprefix = {{arXiv}}}}
@misc{{four, title = {{nothing to ask for}}}}
@article{{five, doi = {{{works.ARTICLE.doi}}}}}
"""


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with place_at(scholarly.WORLD) as found:
        yield found


@pytest.fixture(scope="module")
def cli(place: Place) -> PlaceCli:
    found = settle(place, place.directory / "home", *scholarly.ARXIV_RATES)
    file = write(found.base / "papers.bib", BIBTEX.encode())
    place.own(file)
    done = found("fetch", "-f", file, "--enrich", "none", code=65)  # for the entry in line 5
    assert f"{file}, line 5: an entry without DOI" in done.err
    return found


def test_a_reading_list_is_fetched_once_each(cli: PlaceCli) -> None:
    assert set(packets(cli)) == {ARTICLE, RETRACTED, PREPRINT}


@pytest.mark.parametrize("form", ["bibtex", "ris", "csl-json"])
def test_what_was_fetched_is_exported_and_can_be_fetched_from_that(
    cli: PlaceCli, place: Place, form: str
) -> None:
    ids = packet_ids(cli)
    exported = cli("packet", "export", *ids.values(), "--format", form)
    found = read_list(Untrusted(exported.raw_out))
    version = f"{PREPRINT}v1"  # what was asked for without one has one
    assert {work.reference.text for work in found.works} == {ARTICLE, RETRACTED, version}
    assert "RETRACTED: according to crossref" in exported.out
    assert exported.out.count("TEST SOURCE") == 3
    articles = cli("packet", "export", ids[ARTICLE], ids[RETRACTED], "--format", form).raw_out
    before = len(place.arrived())
    again = cli("fetch", "-f", "-", "--enrich", "none", "--json", stdin=articles).json
    assert [item["status"] for item in again["items"]] == ["already"] * 2
    assert place.arrived()[before:] == []


def test_a_packet_can_be_made_again_from_what_is_kept(cli: PlaceCli, place: Place) -> None:
    before = len(place.arrived())
    ids = packet_ids(cli)
    told = cli("packet", "remake", ids[ARTICLE], ids[PREPRINT], "--json").json["packets"]
    assert [(item["packet_id"], item["verdict"]) for item in told] == [
        (ids[ARTICLE], "same"),
        (ids[PREPRINT], "same"),
    ]
    assert place.arrived()[before:] == [], "nobody was asked"
    # Somebody edits a packet and admits it as one of the same retrieval.
    kept = packets(cli)[ARTICLE]
    forged = replace(kept, title=box("Ice is warm"), retraction="unknown")
    file = write(cli.base / "forged.md", registry.emit(forged))
    place.own(file)
    (refused,) = cli("admit", "--json", file, code=65).json["files"]
    assert (refused["status"], refused["code"]) == ("quarantined", "TG-HND-017")
    assert refused["reason"].endswith("raw bytes give: title, retraction")
    listed = {row["id"]: row["origin"] for row in cli("packet", "list", "--json").json["items"]}
    assert listed == dict.fromkeys(ids.values(), "retrieved"), "control: what was fetched"
    entries = cli("audit", "show", "--json", "--limit", "5000").json["items"]
    logged = [entry["data"] for entry in entries if entry["kind"] == "packet.remake"]
    assert [entry["verdict"] for entry in logged] == ["same", "same"]


def test_what_was_forgotten_cannot_be_compared(cli: PlaceCli, place: Place) -> None:
    kept = packets(cli)[RETRACTED]
    other = replace(kept, record_sha256=None)
    file = write(cli.base / "other.md", registry.emit(other))
    place.own(file)
    cli("admit", file)
    cli("forget", f"blob-{kept.raw_sha256}", "--reason", "personal data", "--yes")
    told = cli("packet", "remake", registry.id_of(other), registry.id_of(kept)).out.splitlines()
    assert told[0].endswith(": it was not fetched here, so it has no record")
    assert told[1].endswith(": 1 of its 1 answers forgotten")
    assert all(line.startswith("cannot rp-") for line in told)


@pytest.mark.parametrize("source", ["crossref", "arxiv", "openalex", "europepmc"])
def test_a_search_lists_references_to_paste(cli: PlaceCli, place: Place, source: str) -> None:
    before = len(place.arrived())
    done = cli("fetch", "search", "ice", "--source", source, "--rows", "5")
    asked = [event for event in place.arrived()[before:] if event["event"] == "request"]
    assert len(asked) == 1, "candidates are not fetched"
    numbered = [line for line in done.out.splitlines() if line.strip().startswith("1. ")]
    assert len(numbered) == 1, done.out
    pasted = numbered[0].split()[1]
    cli("fetch", pasted, "--dry-run")


# Nobody else on this machine has these in an argument.
KEYS = {
    host: f"canary-{secrets.token_hex(12)}"
    for host in ("api.openalex.org", "api.semanticscholar.org")
}


def holds_a_key(text: str) -> bool:
    return any(value in text for value in KEYS.values())


def watch(found: set[str], stop: threading.Event) -> None:
    """Collect arguments and environments of every process, as often as possible."""
    while not stop.is_set():
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                for name in ("cmdline", "environ"):
                    try:
                        found.add((entry / name).read_bytes().decode("utf-8", "replace"))
                    except OSError:  # gone, or somebody else's
                        continue
        time.sleep(0.02)


# claim TG-C-131
def test_keys_reach_their_hosts_and_nothing_else(place: Place) -> None:
    keyed = settle(place, place.directory / "keyed")
    for host, value in KEYS.items():
        keyed("credential", "set", host, stdin=value.encode())
    said: set[str] = set()
    stop = threading.Event()
    watcher = threading.Thread(target=watch, args=(said, stop))
    watcher.start()
    done = keyed("fetch", ARTICLE, "--enrich", "all", "--json")
    stop.set()
    watcher.join()
    (query,) = requests(place.seen(), "api.openalex.org", KEYS["api.openalex.org"])
    assert query["line"].count("canary") == 1, "control: the first host got its key"
    (head,) = requests(place.seen(), "api.semanticscholar.org")
    assert KEYS["api.semanticscholar.org"] in json.dumps(head["headers"]), "control: so did this"
    assert any("threegate" in text for text in said), "control: processes were looked at"
    assert not any(holds_a_key(text) for text in said)
    others = [
        event
        for event in place.seen()
        if holds_a_key(json.dumps(event)) and event not in (query, head)
    ]
    assert [event["event"] for event in others] in ([], ["answer"]), "each key in one request"
    audit = keyed("audit", "show", "--json", "--limit", "5000")
    shown = keyed("packet", "show", packet_ids(keyed)[ARTICLE])
    for told in (done, audit, shown):
        assert not holds_a_key(told.out + told.err)
    kept = keyed.base / ".config/threegate/credentials"
    holding = [
        path
        for path in keyed.base.rglob("*")
        if path.is_file() and path.parent != kept and holds_a_key(path.read_text("latin-1"))
    ]
    assert holding == []


def test_the_operators_address_is_given_to_hosts_and_kept_in_no_packet(place: Place) -> None:
    address = "first.last@library.example.org"
    known = settle(place, place.directory / "known", ("contact: none", f"contact: {address}"))
    before = len(place.arrived())
    known("fetch", ARTICLE, f"pmid:{works.ARTICLE.pmid}", "--json")
    asked = [event for event in place.arrived()[before:] if event["event"] == "request"]
    told = {event["host"] for event in asked if address in event["line"]}
    assert told == {"api.crossref.org", "api.unpaywall.org", "eutils.ncbi.nlm.nih.gov"}, "control"
    assert known.workspace is not None
    holding = {
        path.relative_to(known.workspace).parts[0]
        for path in known.workspace.rglob("*")
        if path.is_file() and address in path.read_text("latin-1")
    }
    assert holding == {"policy", "bundles"}, "where the operator wrote it, and nowhere else"
    assert address not in known("audit", "show", "--json", "--limit", "5000").out
