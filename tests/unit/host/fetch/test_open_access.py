"""Which addresses of open copies are asked for, and what is said about the others."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.fetches import Bench, got
from tests.support.holdings import found_by_search
from tests.support.origins import answers, works
from tests.support.samples import box
from tests.support.workspaces import make_workspace
from threegate.artifacts.references import parse_reference
from threegate.artifacts.research_packet import ResearchPacket
from threegate.gates.fetch.retrieve.messages import Authority
from threegate.host.fetch.open_access import (
    MAX_COPIES,
    may_follow,
    notes_on,
    open_copies,
    widening,
)
from threegate.host.fetch.schedule import FetchTask
from threegate.host.fetch.targets import ApprovedFetch, FetchTarget, target_for
from threegate.host.workspace.packets import joins_names
from threegate.host.workspace.workspace import Workspace

WORK = replace(works.ARTICLE, copies=("https://arxiv.org/pdf/2610.99901",))
DOI = f"doi:{WORK.doi}"
PDF = "https://arxiv.org/pdf/1706.03762"  # its host is in the default policy


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path)


def target(ws: Workspace, text: str = DOI, want: str = "full-text") -> FetchTarget:
    return target_for(
        parse_reference(text), ws.bundle, want=want, enrich=("openalex",), confidentiality="public"
    )


def links(*lines: str, label: str = "links") -> ResearchPacket:
    """Return a packet of metadata with these links."""
    return found_by_search("\n".join(lines), label=label, reference=box(DOI))


def asked(ws: Workspace, *lines: str, label: str = "links") -> list[str]:
    found = open_copies(ws.bundle, target(ws), links(*lines, label=label))
    return [question.url for question in found.questions]


def test_open_copies_at_listed_hosts_are_asked_for_files_first(ws: Workspace) -> None:
    page = "https://export.arxiv.org/abs/1706.03762"
    assert asked(ws, f"open-page {page}", f"open-pdf {PDF}", f"open-pdf {PDF}") == [PDF, page]
    (question,) = open_copies(ws.bundle, target(ws), links(f"open-pdf {PDF}")).questions
    assert (question.source, question.role) == ("url", "document")


@pytest.mark.parametrize(
    "line",
    [
        f"pdf {PDF}",
        f"landing {PDF}",
        f"full-text {PDF}",
        f" open-pdf {PDF}",
        f"open-pdf  {PDF}",
        f"xopen-pdf {PDF}",
        PDF,
        "open-pdf http://arxiv.org/pdf/1706.03762",
        "open-pdf https://arxiv.org:8443/pdf/1706.03762",
        "open-pdf https://arxiv.org@evil.example/a.pdf",
        "open-pdf https://arxiv.org\\@evil.example/a.pdf",
        "open-pdf https://127.0.0.1/a.pdf",
        "open-pdf file:///etc/passwd",
        "open-pdf https://doi.org/10.5555/12345678",
        "open-page https://doi.org/10.5555/12345678",
        f"open-pdf {PDF}{'a' * 3000}",
        "open-pdf ",
    ],
)
# claim TG-C-541
def test_other_addresses_are_not_asked_for(ws: Workspace, line: str) -> None:
    assert asked(ws, line, f"open-pdf {PDF}") == [PDF], "control: the next one is"
    assert asked(ws, line) == []


# claim TG-C-541
def test_only_the_links_of_the_packet_count(ws: Workspace) -> None:
    for label in ("abstract", "abstract: links", "Links", "candidate 1", "page 1"):
        assert asked(ws, f"open-pdf {PDF}", label=label) == []


def test_few_copies_are_asked_for(ws: Workspace) -> None:
    many = [f"open-pdf https://arxiv.org/pdf/1706.0{n:04}" for n in range(50)]
    assert len(asked(ws, *many)) == MAX_COPIES


def test_hosts_that_policy_lacks_are_named_once_and_few(ws: Workspace) -> None:
    lines = [f"open-pdf https://p{n}.example.org/{m}.pdf" for n in range(9) for m in range(2)]
    packet = links(*lines)
    assert open_copies(ws.bundle, target(ws), packet).unlisted == (
        "p0.example.org",
        "p1.example.org",
        "p2.example.org",
    )
    notes = notes_on(ws.bundle, target(ws), packet)
    assert len(notes) == 3
    assert notes[0] == (
        "full text: not fetched from p0.example.org, which policy does not list; to list it is"
        f" `{widening(ws.bundle, 'p0.example.org')}`"
    )
    assert widening(ws.bundle, "p0.example.org").startswith("! wider ")


def test_notes_are_for_a_document_that_was_wanted_and_is_not_here(ws: Workspace) -> None:
    without = links("landing https://example.org/")
    words = ("full text: no source names an open copy",)
    assert notes_on(ws.bundle, target(ws), without) == words, "control"
    assert notes_on(ws.bundle, target(ws, want="metadata"), without) == ()
    assert notes_on(ws.bundle, target(ws), replace(without, source="url")) == ()


def test_copies_are_for_the_operators_own_references_without_a_document(ws: Workspace) -> None:
    own = target(ws)
    assert may_follow(own)
    approved = ApprovedFetch("fr-" + "0" * 64, Authority(b"r", b"a", b"s"), "operator")
    assert not may_follow(replace(own, approved=approved))
    assert not may_follow(target(ws, want="metadata"))
    assert not may_follow(target(ws, "arxiv:1706.03762")), "it has a document of its own"
    assert not may_follow(target(ws, "https://example.org/"))


def test_the_packet_of_an_open_copy_is_one_of_its_work() -> None:
    copy = links("open-pdf https://a.example/", label="page 1")
    assert joins_names(replace(copy, source="url"))
    page = replace(copy, source="url", reference=box("https://a.example/"))
    assert not joins_names(page), "control: a page that the operator named is of no work"


# -- in a run --


@pytest.fixture
def bench(ws: Workspace) -> Bench:
    found = Bench(ws)
    openalex = target(ws).questions[-1].url
    found.serve(DOI, answers.crossref(WORK))
    found.origins.answers[openalex] = lambda _: got(openalex, answers.openalex(WORK))
    return found


def text_at(bench: Bench, url: str, text: str) -> None:
    plain = {"media_type": "text/plain", "read_as": "text/plain"}
    bench.origins.answers[url] = lambda _: got(url, text.encode(), **plain)


# claim TG-C-541
def test_a_copy_that_was_read_ends_the_asking_whatever_it_says(bench: Bench) -> None:
    (url,) = WORK.copies
    text_at(bench, url, f"links\n\nopen-pdf {PDF}\n\nAll about ice.")
    (report,) = bench.run().fetch([target(bench.ws)])
    assert report.packet is not None
    assert (report.packet.source, report.packet.url) == ("url", url)
    urls = [task.ask.url for task in bench.origins.asked]
    assert urls[-1] == url
    assert PDF not in urls, "an address that a document names is not followed"
    assert report.notes == ()


# claim TG-C-541
def test_a_copy_is_asked_for_without_a_key(bench: Bench) -> None:
    bench.keys |= {"api.openalex.org": "a key of ours", "arxiv.org": "another key"}
    list(bench.run().fetch([target(bench.ws)]))
    keys = {task.host: task.ask.credential for task in bench.origins.asked}
    assert keys["api.openalex.org"] == "a key of ours", "control"
    assert keys["arxiv.org"] is None


def test_a_copy_that_fails_is_a_gap_and_the_metadata_stay(bench: Bench) -> None:
    (report,) = bench.run().fetch([target(bench.ws)])
    assert report.packet is not None
    assert (report.status, report.packet.source) == ("made", "crossref")
    assert ("url", "not-found") in [(gap.source, gap.reason) for gap in report.packet.gaps]


def test_an_interrupted_run_keeps_no_packet_whose_document_is_still_to_come(bench: Bench) -> None:
    (url,) = WORK.copies
    stopped = False

    def stop_at(_task: FetchTask) -> None:  # no answer: the run was stopped before it left
        nonlocal stopped
        stopped = True

    bench.origins.answers[url] = stop_at
    assert list(bench.run().fetch([target(bench.ws)], stop=lambda: stopped)) == []
    text_at(bench, url, "All about ice.")
    (report,) = bench.run().fetch([target(bench.ws)])
    assert report.packet is not None
    assert (report.status, report.packet.url) == ("made", url), "the same command goes on"
