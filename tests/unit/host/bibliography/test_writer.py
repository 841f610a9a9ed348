"""Bibliographies: what a hostile title says stays a title, and identifiers survive."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.samples import box, digest, packet
from threegate.artifacts.references import parse_reference
from threegate.artifacts.research_packet import Identifier, Notice, ResearchPacket
from threegate.base.text import FORBIDDEN
from threegate.base.untrusted import Untrusted
from threegate.host.bibliography import works as module
from threegate.host.bibliography.reader import read_list
from threegate.host.bibliography.works import WRITERS, Work, bibtex, csl_json, once_each, ris
from threegate.host.workspace.packets import RETRIEVED_HERE, UNKNOWN, PacketOrigin, is_search

ID = "rp-" + digest("one")
SICI = "10.1002/(sici)1097-4695(20000205)42:2<270::aid-neu10>3.0.co;2-v"


def work_of(artifact_id: str, one: ResearchPacket, origin: PacketOrigin = RETRIEVED_HERE) -> Work:
    return module.work_of(artifact_id, one, origin)


def work(**changes: Any) -> Work:
    return work_of(ID, packet(**changes))


def identifiers(**names: str) -> tuple[Identifier, ...]:
    return tuple(Identifier(scheme, box(value)) for scheme, value in sorted(names.items()))


def test_bibtex_of_a_packet() -> None:
    assert bibtex([work()]) == (
        f"@article{{example2024-{digest('one')[:12]},\n"
        "  title = {{On the toughness of ice: a \u201cmeasurement\u201d}},\n"
        "  author = {Ada Example and Bj\u00f6rn Muster},\n"
        "  journal = {Journal of Ice},\n"
        "  year = 2024,\n"
        "  month = mar,\n"
        "  doi = {10.5555/12345678},\n"
        f"  note = {{licence: CC BY 4.0; packet rp-{digest('one')[:12]}}}\n"
        "}\n"
    )


def copy(name: str, origin: PacketOrigin = RETRIEVED_HERE, **changes: Any) -> Work:
    return work_of(f"rp-{digest(name)}", packet(**changes), origin)


# claim TG-C-457
def test_packets_of_one_work_are_one_entry() -> None:
    first = copy("b", retrieved="2026-11-14T09:12:40Z")
    newer = copy("a", retrieved="2026-11-15T09:12:40Z")
    bare = copy("c", retrieved="2026-11-17T09:12:40Z", container=None, authors=(), published=None)
    kept = replace(newer, key=first.key)
    assert once_each([newer, bare, first]) == [kept], "the key of the first stays"
    spelled = identifiers(doi="10.5555/12345678".upper(), pmid="31452104")
    other = copy("d", identifiers=spelled, retrieved="2026-11-13T09:12:40Z")
    by_pmid = identifiers(pmid="31452104")
    third = copy(
        "e", reference=box("pmid:31452104"), identifiers=by_pmid, retrieved="2026-11-12T09:12:40Z"
    )
    (entry,) = once_each([newer, first, other, third])
    assert (entry.packet, entry.key) == (other.packet, third.key), "joined by another packet"
    stranger = copy("f", reference=box("doi:10.5555/x"), identifiers=identifiers(doi="10.5555/x"))
    assert len(once_each([newer, stranger])) == 2, "control: a different work"


# claim TG-C-457
def test_a_retraction_of_any_packet_of_the_work_wins() -> None:
    full = copy("a", retrieved="2026-11-15T09:12:40Z")
    notice = copy("b", retraction="retracted", container=None, retrieved="2026-11-14T09:12:40Z")
    (entry,) = once_each([full, notice])
    assert entry.is_retracted
    assert not once_each([full])[0].is_retracted, "control"


DOIS = tuple(Identifier("doi", box(doi)) for doi in ("10.5555/12345678", "10.5555/x"))


PAGE: dict[str, Any] = {"source": "url", "reference": box("https://www.example.org/list")}


@pytest.mark.parametrize(
    "both", [copy("c", identifiers=DOIS, **PAGE), copy("c", UNKNOWN, identifiers=DOIS)]
)
# claim TG-C-457
def test_a_page_or_a_brought_packet_that_names_two_works_hides_neither(both: Work) -> None:
    one = copy("a")
    two = copy("b", reference=box("doi:10.5555/x"), identifiers=identifiers(doi="10.5555/x"))
    entries = {work.packet: work.title for work in once_each([one, both, two])}
    assert set(entries) == {one.packet, two.packet, both.packet}
    joined = copy("c", identifiers=DOIS)
    assert len(once_each([one, joined, two])) == 1, "control: a registry says that they are one"
    brought = copy("d", UNKNOWN, title=box("Forged"))
    (entry,) = once_each([one, brought])
    assert entry.title == one.title, "what was retrieved comes first"


@pytest.mark.parametrize("said", ["", "RETRACTED: ", "[Retracted] ", "RETRACTED: RETRACTED: "])
# claim TG-C-452
def test_an_exported_title_says_retracted_once(said: str) -> None:
    title = box(f"{said}Ice")
    assert work(title=title, retraction="retracted").title == "RETRACTED: Ice"
    assert work(title=title).title == f"{said}Ice", "control: the source's own words"
    assert work(title=box("RETRACTED:"), retraction="retracted").title == "RETRACTED:"


def test_a_remark_is_made_once() -> None:
    notice = Notice("retracted", "crossref", box("RETRACTED:"), None, None)
    noted = work(retraction="retracted", notices=(notice, replace(notice, source="openalex")))
    assert noted.note.count("retracted: RETRACTED:") == 1


def test_ris_of_a_packet() -> None:
    assert ris([work(authors=(box("Example, Ada"),))]) == (
        "TY  - JOUR\r\n"
        f"ID  - example2024-{digest('one')[:12]}\r\n"
        "TI  - On the toughness of ice: a \u201cmeasurement\u201d\r\n"
        "AU  - Example, Ada\r\n"
        "T2  - Journal of Ice\r\n"
        "PY  - 2024\r\n"
        "DA  - 2024/03//\r\n"
        "DO  - 10.5555/12345678\r\n"
        "Y2  - 2026/11/15\r\n"
        f"N1  - licence: CC BY 4.0; packet rp-{digest('one')[:12]}\r\n"
        "ER  - \r\n"
    )


def test_csl_json_of_a_packet() -> None:
    names = identifiers(arxiv="1706.03762v5", pmid="31452104")
    authors = (box("Example, Ada"), box("The Ice, Snow, and Water Group"))
    found = json.loads(csl_json([work(identifiers=names, authors=authors, container=None)]))
    assert found == [
        {
            "id": f"example2024-{digest('one')[:12]}",
            "type": "document",
            "title": "On the toughness of ice: a \u201cmeasurement\u201d",
            "author": [
                {"family": "Example", "given": "Ada"},
                {"literal": "The Ice, Snow, and Water Group"},
            ],
            "issued": {"date-parts": [[2024, 3]]},
            "PMID": "31452104",
            "archive": "arXiv",
            "archive_location": "1706.03762v5",
            "URL": "https://arxiv.org/abs/1706.03762v5",
            "accessed": {"date-parts": [[2026, 11, 15]]},
            "note": f"licence: CC BY 4.0; packet rp-{digest('one')[:12]}",
        }
    ]


def test_a_retraction_is_noted_first() -> None:
    notice = Notice("retracted", "crossref", box("Retraction {of}"), box("10.5555/r"), "2025-01-02")
    hard = packet(retraction="retracted", notices=(notice,), trust_anchor=digest("other"))
    note = work_of(ID, hard).note
    assert note.startswith("RETRACTED: according to crossref; TEST SOURCE: ")
    assert "retracted: Retraction {of}, 10.5555/r, 2025-01-02" in note
    for write in WRITERS.values():
        assert "RETRACTED: according to crossref" in write([work_of(ID, hard)])


def test_a_page_is_cited_by_its_address() -> None:
    page = {"source": "url", "url": "https://example.org/a", "identifiers": (), "authors": ()}
    found = work(**page, published=None, title=box(""), reference=box("https://example.org/a"))
    assert found.key == f"work-{digest('one')[:12]}"
    assert (found.title, found.url, found.names) == (
        "https://example.org/a",
        "https://example.org/a",
        {},
    )
    for write in WRITERS.values():
        assert read(write([found])) == [["https://example.org/a"]]


def test_the_version_that_was_asked_for_is_the_one_that_is_cited() -> None:
    two = (Identifier("arxiv", box("1706.03762")), Identifier("arxiv", box("1706.03762v5")))
    found = work(identifiers=two, reference=box("arxiv:1706.03762v5"))
    assert found.names["arxiv"].value == "1706.03762v5"
    assert work(identifiers=two).names["arxiv"].value == "1706.03762"


def test_a_search_is_no_work() -> None:
    assert is_search(packet(reference=box("search:crossref:ice")))
    assert not is_search(packet())


def read(text: str) -> list[list[str]]:
    found = read_list(Untrusted(text.encode()))
    assert found.problems == ()
    return [[name.text for name in entry.names] for entry in found.works]


@pytest.mark.parametrize("name", WRITERS)
def test_what_is_exported_reads_back_with_the_same_identifiers(name: str) -> None:
    packets = [
        packet(identifiers=identifiers(doi=SICI, pmid="31452104", pmcid="PMC7029158")),
        packet(identifiers=identifiers(arxiv="hep-th/9901001v3", doi="10.48550/arxiv.9901001")),
        packet(identifiers=identifiers(pmcid="PMC7029159", isbn="9780000000000")),
        packet(identifiers=identifiers(openalex="W2741809807")),
        packet(identifiers=identifiers(doi='10.5555/a%b{c}d\\e"f#g')),
        packet(identifiers=identifiers(doi="10.5555/a%3cb")),
    ]  # fmt: skip
    works = [work_of(f"rp-{digest(str(n))}", one) for n, one in enumerate(packets)]
    expected = [[reference.text for reference in one.names.values()] for one in works]
    found = zip(read(WRITERS[name](works)), expected, strict=True)
    assert [entry[: len(names)] for entry, names in found] == expected
    assert len({one.key for one in works}) == len(works)


HOSTILE = [
    "}}, doi = {10.5555/evil",
    "\\input{/etc/passwd}",
    "\\write18{id}",
    "{{{{",
    "}}}}",
    "a } b { c",
    "\\",
    "\\}",
    "%}\n@misc{evil, doi = {10.5555/evil}}",
    "x\r\nER  - \r\nTY  - JOUR\r\nDO  - 10.5555/evil",
    "x\u2028DO  - 10.5555/evil\x85\x0bDO  - 10.5555/evil",
    '","DOI":"10.5555/evil',
    "$\\catcode`\\@=11$ ^^5cinput",
    "@string{x = {y}} @comment{",
    "\u202eevil",
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("name", WRITERS)
# claim TG-C-130
def test_a_hostile_title_stays_a_title(name: str, text: str) -> None:
    assert read(WRITERS[name]([work()])) == [["doi:10.5555/12345678"]], "control"
    check(name, spoiled(text))


PARTS = st.sampled_from(
    [*HOSTILE, "{", "}", "\\", "\n", "\r", '"', ",", " and ", "%", "@a{b,", "="]
)


@given(
    st.lists(PARTS | st.text(max_size=10), max_size=8).map("".join),
    st.sampled_from(sorted(WRITERS)),
)
@example("\ud800", "bibtex")
# claim TG-C-130
def test_no_text_leaves_its_field(text: str, name: str) -> None:
    check(name, spoiled(text))


def spoiled(text: str) -> ResearchPacket:
    """Return a packet that says `text` wherever a source may say something."""
    foreign = box(text)
    notice = Notice("corrected", "crossref", foreign, foreign, None)
    return packet(
        title=foreign,
        authors=(foreign, box("Ada Example")),
        container=foreign,
        licence=foreign,
        retraction="corrected",
        notices=(notice,),
    )


def check(name: str, hostile: ResearchPacket) -> None:
    one, plain = work_of(ID, hostile), work()
    written = WRITERS[name]([one, plain])
    assert not FORBIDDEN.search(written.replace("\r\n", "\n"))
    written.encode("utf-8")
    assert [entry[0] for entry in read(written)] == ["doi:10.5555/12345678"]
    assert read_list(Untrusted(written.encode())).repeated == 1, "two entries and no more"
    {"bibtex": check_bibtex, "ris": check_ris, "csl-json": check_csl}[name](written, one)


COMMANDS = re.compile(
    r"\\textbackslash\{\}|\\textbraceleft\{\}|\\textbraceright\{\}|\\textasciitilde\{\}"
    r"|\\textasciicircum\{\}|\\symbol\{64\}|\\[#$%&_]"
)
FIELD = re.compile(r"  ([a-z]+) = (?:[0-9]{4}|[a-z]{3}|\{(.*)\}),?")


def check_bibtex(written: str, _: Work) -> None:
    """Every field is one line of its own, in which only our few commands are left."""
    lines = written.split("\n")
    for line in lines:
        if line in ("", "}"):
            continue
        if line.startswith("@"):
            assert re.fullmatch(r"@(?:article|misc)\{[a-z0-9]+-[0-9a-f]{12},", line)
            continue
        found = FIELD.fullmatch(line)
        assert found is not None, line
        inner = COMMANDS.sub("", found[2] or "")
        if found[1] == "title":
            assert inner[0] + inner[-1] == "{}"
            inner = inner[1:-1]
        if found[1] == "author":
            inner = re.sub(r"(?:^|(?<= and ))\{([^{}]*)\}(?= and |$)", r"\1", inner)
        assert not set(inner) & set("\\{}^~@"), line
    assert sum(line.startswith("@") for line in lines) == 2


def check_ris(written: str, one: Work) -> None:
    lines = written.splitlines()
    assert all(re.match(r"[A-Z][A-Z0-9]  - ", line) for line in lines)
    tags = [line[:2] for line in lines]
    assert (tags.count("TY"), tags.count("ER"), tags.count("DO")) == (2, 2, 2)
    if one.title:
        assert f"TI  - {one.title}" in lines


def check_csl(written: str, one: Work) -> None:
    assert written.isascii()
    first, second = json.loads(written)
    assert first["title"] == one.title
    assert first["DOI"] == second["DOI"] == "10.5555/12345678"


@given(st.text(st.characters(min_codepoint=0x21, max_codepoint=0xFFFF), min_size=1, max_size=30))
@example("^^5cinput/etc/passwd")
@example("}, doi = {10.5555/evil")
@example("a%3cb%")
# claim TG-C-130
def test_no_identifier_leaves_its_field_or_becomes_another(suffix: str) -> None:
    try:
        reference = parse_reference(f"doi:10.5555/{suffix}")
    except ValueError:
        return
    one = work(identifiers=identifiers(doi=reference.value))
    for name, write in WRITERS.items():
        written = write([one])
        assert read(written) == [[reference.text]], name
    (field,) = re.findall(r"^  doi = \{(.*)\},$", bibtex([one]), re.MULTILINE)
    assert not set(field) & set("\\{}^")


def test_names_that_bibtex_would_split_stay_one() -> None:
    names = ("Ada and Bob", "others", "Smith, Jr, John", "AND", "Sand Andersen", "{x}")
    found = bibtex([work(authors=tuple(map(box, names)))])
    assert (
        "author = {{Ada and Bob} and {others} and {Smith, Jr, John} and {AND} and Sand Andersen"
        " and \\textbraceleft{}x\\textbraceright{}}"
    ) in found


def test_keys_are_plain_and_the_same_every_time() -> None:
    for author, word in (
        ("\u0141ukasz Kaiser", "kaiser"),
        ("M\u00fcller-L\u00fcdenscheidt, H.", "mullerludenscheidt"),
        ("\u738b\u5c0f\u660e", "work"),
        ("x} evil", "evil"),
        ("a" * 200, "a" * 24),
    ):
        found = work(authors=(box(author),))
        assert found.key == f"{word}2024-{digest('one')[:12]}"
        assert found == work(authors=(box(author),))


# claim TG-C-401
def test_a_brought_packet_is_exported_without_a_date_of_access() -> None:
    page = packet(source="url", identifiers=())
    fields = {bibtex: "urldate", csl_json: "accessed", ris: "Y2"}
    for write, field in fields.items():
        assert field in write([work_of(ID, page)]), "control: a retrieved packet"
        brought = write([work_of(ID, page, UNKNOWN)])
        assert field not in brought
        assert "BROUGHT" in brought
