"""References: one spelling each, refused if not in a grammar, and the URLs asked for them."""

import re
from urllib.parse import parse_qs

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from threegate.artifacts.references import (
    DEFAULT_ENRICH,
    ENRICHERS,
    MAX_QUERY_CHARS,
    MAX_REFERENCE_CHARS,
    MAX_ROWS,
    RELATIONS,
    SCHEMES,
    SEARCHABLE,
    WANTS,
    Question,
    Reference,
    is_question_of,
    parse_reference,
    questions,
    related_questions,
    related_reference,
    search_question,
    search_reference,
    without_contact,
)
from threegate.base.identifiers import MAX_DOI_CHARS
from threegate.policy.hosts import parse_url

CONTACT = "first.last+alerts@library.example.org"
DOI = parse_reference("doi:10.5555/12345678")
SICI = "10.1002/(SICI)1097-4695(20000205)42:2<270::AID-NEU10>3.0.CO;2-V"

SPELLINGS = [
    ("doi:10.5555/12345678", "doi:10.5555/12345678"),
    ("10.5555/12345678", "doi:10.5555/12345678"),
    (" 10.5555/12345678\n", "doi:10.5555/12345678"),
    ("DOI:10.5555/AbC", "doi:10.5555/abc"),
    ("https://doi.org/10.5555/AbC", "doi:10.5555/abc"),
    ("http://dx.doi.org/10.5555%2Fabc", "doi:10.5555/abc"),
    ("https://www.doi.org/10.5555/a%3Cb%3E", "doi:10.5555/a<b>"),
    ("https://doi.org/10.5555/a%23b%3Fc", "doi:10.5555/a#b?c"),
    ("doi:10.5555/a%23b", "doi:10.5555/a%23b"),  # in itself a DOI is spelled without encoding
    ("doi:10.1000.10/123", "doi:10.1000.10/123"),
    (SICI, f"doi:{SICI.lower()}"),
    ("10.1890/09(2006)87[2832:TIOPMA]2.0.CO;2", "doi:10.1890/09(2006)87[2832:tiopma]2.0.co;2"),
    ("10.1038/s41586\u2010024\u20107236", "doi:10.1038/s41586\u2010024\u20107236"),
    ("doi:10.5555/\u00c4", "doi:10.5555/\u00c4"),  # only ASCII has no case in a DOI
    ("arxiv:1706.03762", "arxiv:1706.03762"),
    ("arXiv:1706.03762v5", "arxiv:1706.03762v5"),
    ("arxiv:0704.0001", "arxiv:0704.0001"),
    ("arxiv:hep-th/9901001v3", "arxiv:hep-th/9901001v3"),
    ("arxiv:math.GT/0309136", "arxiv:math/0309136"),
    ("https://arxiv.org/abs/1706.03762v5", "arxiv:1706.03762v5"),
    ("https://arxiv.org/pdf/1706.03762.pdf", "arxiv:1706.03762"),
    ("http://export.arxiv.org/html/1706.03762/", "arxiv:1706.03762"),
    ("https://arxiv.org/abs/hep-th/9901001", "arxiv:hep-th/9901001"),
    ("pmid:31452104", "pmid:31452104"),
    ("https://pubmed.ncbi.nlm.nih.gov/31452104/", "pmid:31452104"),
    ("http://www.ncbi.nlm.nih.gov/pubmed/31452104", "pmid:31452104"),
    ("PMCID:pmc7029158", "pmcid:PMC7029158"),
    ("https://pmc.ncbi.nlm.nih.gov/articles/PMC7029158/", "pmcid:PMC7029158"),
    ("https://www.ncbi.nlm.nih.gov/pmc/articles/PMC7029158/", "pmcid:PMC7029158"),
    ("openalex:w2741809807", "openalex:W2741809807"),
    ("https://openalex.org/W2741809807", "openalex:W2741809807"),
    ("https://openalex.org/works/W2741809807", "openalex:W2741809807"),
    ("https://example.org/a?b=c", "https://example.org/a?b=c"),
    ("https://doi.org/ra/10.5555", "https://doi.org/ra/10.5555"),
    ("https://arxiv.org/list/cs.CL/recent", "https://arxiv.org/list/cs.CL/recent"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "spelled"), SPELLINGS)
def test_every_way_to_write_a_reference_leads_to_one_spelling(text: str, spelled: str) -> None:
    reference = parse_reference(text)
    assert reference.text == spelled
    assert parse_reference(spelled) == reference
    assert reference.scheme in SCHEMES


REFUSED = [
    ("", "an empty reference"),
    (" \t\n", "an empty reference"),
    ("doi:", "not a DOI"),
    ("doi:11.5555/1", "not a DOI"),
    ("10.5555", "not a DOI"),
    ("10.555/1", "not a DOI"),
    ("10.5555/", "not a DOI"),
    ("10.5555/a b", "not a DOI"),
    ("10.5555/a\u3000b", "not a DOI"),
    ("10.5555/a\nb", "not a DOI"),
    ("10.5555/a\x00", "not a DOI"),
    ("10.5555/a\u202eb", "not a DOI"),
    ("10.5555/a\u200bb", "not a DOI"),
    ("10.5555/a\ud800", "not a DOI"),
    ("10.5555/..", "not a DOI"),
    ("10.5555/../members/98", "not a DOI"),
    ("10.5555/a/./b", "not a DOI"),
    ("https://doi.org/10.5555/%2e%2e/b", "not a DOI"),
    ("https://doi.org/10.5555/a%0Ab", "not a DOI"),
    ("https://doi.org/10.5555/a%FF", "not UTF-8"),
    ("https://doi.org/10.5555/a?x=1", "? or #"),
    ("https://doi.org/10.5555/a#top", "? or #"),
    ("doi:10.5555/" + "a" * MAX_DOI_CHARS, "not a DOI"),
    ("doi:10.5555/" + "\u4e00" * 180, "not a DOI"),  # 1,620 characters once encoded
    ("arxiv:1706.3762", "not an arXiv id"),  # four digits ended in 2014
    ("arxiv:0704.00001", "not an arXiv id"),  # five began in 2015
    ("arxiv:1713.03762", "not an arXiv id"),
    ("arxiv:1706.03762v0", "not an arXiv id"),
    ("arxiv:1706.03762v", "not an arXiv id"),
    ("arxiv:evil/9901001", "not an arXiv id"),
    ("arxiv:hep-th/9913001", "not an arXiv id"),
    ("arxiv:hep-th/0801001", "not an arXiv id"),
    ("https://arxiv.org/abs/../../x", "not an arXiv id"),
    ("https://arxiv.org/abs/1706.03762?context=cs", "? or #"),
    ("1706.03762", "needs arxiv: before it"),
    ("pmid:0", "not a PubMed id"),
    ("pmid:12a", "not a PubMed id"),
    ("pmid:\u0661\u0662", "not a PubMed id"),
    ("pmcid:7029158", "not a PubMed Central id"),
    ("openalex:A123", "not an OpenAlex work"),
    ("openalex:W1&x=y", "not an OpenAlex work"),
    ("openalex:\u0175123", "not an OpenAlex work"),
    ("http://example.org/", "does not begin with https://"),
    ("file:///etc/passwd", "does not begin with https://"),
    ("HTTPS://example.org/", "does not begin with https://"),
    ("https://example.org/a b", "needs percent-encoding"),
    ("https://example.org/\u00e9", "needs percent-encoding"),
    ("javascript:alert(1)", "neither doi:"),
    ("example.org", "neither doi:"),
    ("https://example.org/" + "a" * MAX_REFERENCE_CHARS, "longer than"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "why"), REFUSED)
def test_what_is_in_no_grammar_is_refused_not_repaired(text: str, why: str) -> None:
    assert parse_reference("doi:10.5555/a") == Reference("doi", "10.5555/a")
    with pytest.raises(ValueError, match=re.escape(why)):
        parse_reference(text)


@given(st.text(max_size=80))
@example("10.5555/\u1e9e")
@example("arxiv:1706.03762V5")
def test_any_text_is_a_reference_or_a_sentence(text: str) -> None:
    try:
        reference = parse_reference(text)
    except ValueError as exc:
        assert str(exc)
    else:
        assert parse_reference(reference.text) == reference


SUFFIX = st.text(
    st.characters(min_codepoint=0x21, max_codepoint=0xFFFF, codec="utf-8"), min_size=1, max_size=60
)


def dois() -> st.SearchStrategy[Reference]:
    def read(suffix: str) -> Reference | None:
        try:
            return parse_reference(f"doi:10.5555/{suffix}")
        except ValueError:
            return None

    return SUFFIX.map(read).filter(lambda found: found is not None)  # type: ignore[return-value]


@given(dois(), st.sampled_from([None, CONTACT]))
@example(Reference("doi", '10.5555/a"+or+DOI:"b'), CONTACT)
@example(Reference("doi", SICI.lower()), CONTACT)
# claim TG-C-129
def test_whatever_a_doi_holds_it_stays_within_its_part_of_the_url(
    reference: Reference, contact: str | None
) -> None:
    """A `?`, `#`, `&` or `"` in a DOI must not become a query, a fragment or an operator."""
    plain = {asked.source: asked for asked in _all(DOI, contact)}
    for asked in _all(reference, contact):
        url, pattern = parse_url(asked.url), parse_url(plain[asked.source].url)
        assert url.host == pattern.host
        assert _shape(url.query) == _shape(pattern.query)
        encoded = asked.url.split("/works/")[-1] if asked.source in ("crossref", "openalex") else ""
        assert "/" not in encoded.partition("?")[0]
        if asked.source == "europepmc":  # one phrase, which nothing in it ends
            (phrase,) = parse_qs(str(url.query))["query"]
            assert re.fullmatch(r'DOI:"[^"\\]+"', phrase)


def _all(reference: Reference, contact: str | None) -> tuple[Question, ...]:
    return questions(reference, want="full-text", enrich=ENRICHERS, contact=contact)


def _shape(query: str | None) -> list[str]:
    return [pair.partition("=")[0] for pair in query.split("&")] if query else []


def urls(text: str, **options: object) -> dict[str, str]:
    found = questions(parse_reference(text), **options)  # type: ignore[arg-type]
    return {f"{asked.source} {asked.role}": asked.url for asked in found}


def test_a_doi_is_asked_of_its_agency_and_of_those_who_know_more() -> None:
    enrich = ("openalex", "europepmc", "unpaywall", "semanticscholar")
    assert urls("10.5555/AB", enrich=enrich, contact=CONTACT) == {
        "crossref metadata": "https://api.crossref.org/works/10.5555%2Fab"
        "?mailto=first.last%2Balerts@library.example.org",
        "datacite metadata": "https://api.datacite.org/dois/10.5555/ab",
        "openalex metadata": "https://api.openalex.org/works/doi:10.5555%2Fab",
        "europepmc metadata": "https://www.ebi.ac.uk/europepmc/webservices/rest/search"
        "?query=DOI:%2210.5555%2Fab%22&resultType=core&format=json&pageSize=1",
        "unpaywall metadata": "https://api.unpaywall.org/v2/10.5555/ab"
        "?email=first.last%2Balerts@library.example.org",
        "semanticscholar metadata": "https://api.semanticscholar.org/graph/v1/paper/DOI:10.5555/ab"
        "?fields=title,abstract,authors,year,publicationDate,journal,venue,externalIds,"
        "openAccessPdf,url",
    }


def test_without_an_address_nobody_is_told_one() -> None:
    found = urls("10.5555/ab")
    sources = [name.partition(" ")[0] for name in found]
    assert sources == ["crossref", "datacite", "openalex", "europepmc"]
    assert found["crossref metadata"] == "https://api.crossref.org/works/10.5555%2Fab"
    assert not any("mail" in url for url in urls("pmid:1").values())


def test_arxiv_is_asked_for_the_version_and_datacite_for_the_work() -> None:
    assert urls("arxiv:math.GT/0309136v2", want="full-text", enrich=()) == {
        "arxiv metadata": "https://export.arxiv.org/api/query?id_list=math%2F0309136v2&max_results=1",
        "datacite metadata": "https://api.datacite.org/dois/10.48550/arxiv.math/0309136",
        "arxiv document": "https://arxiv.org/pdf/math/0309136v2",
    }  # fmt: skip
    assert "arxiv document" not in urls("arxiv:1706.03762", want="metadata")


def test_pubmed_is_told_the_tool_and_the_address() -> None:
    assert urls("pmid:31452104", contact="a@b.org") == {
        "pubmed metadata": "https://eutils.ncbi.nlm.nih.gov/entrez/eutils/efetch.fcgi"
        "?db=pubmed&id=31452104&retmode=xml&tool=threegate&email=a@b.org",
        "europepmc metadata": "https://www.ebi.ac.uk/europepmc/webservices/rest/search"
        "?query=EXT_ID:31452104%20AND%20SRC:MED&resultType=core&format=json&pageSize=1",
    }


def test_full_text_of_pubmed_central_comes_from_europe_pmc() -> None:
    found = urls("pmcid:PMC7029158", want="full-text", enrich=())
    assert found == {
        "europepmc metadata": "https://www.ebi.ac.uk/europepmc/webservices/rest/search"
        "?query=PMCID:PMC7029158&resultType=core&format=json&pageSize=1",
        "europepmc document": "https://www.ebi.ac.uk/europepmc/webservices/rest/PMC7029158/fullTextXML",
    }  # fmt: skip


def test_openalex_and_urls_are_asked_as_they_are() -> None:
    assert urls("openalex:W1") == {"openalex metadata": "https://api.openalex.org/works/W1"}
    assert urls("https://example.org/a?b=c", want="full-text") == {
        "url document": "https://example.org/a?b=c"
    }


def test_links_of_a_doi_are_never_followed_for_its_full_text() -> None:
    assert all(asked.role == "metadata" for asked in _all(DOI, CONTACT))


@pytest.mark.parametrize(
    ("reference", "statuses", "due"),
    [
        ("doi:10.5555/a", {}, False),
        ("doi:10.5555/a", {"crossref": 200}, False),
        ("doi:10.5555/a", {"crossref": 404}, True),
        ("doi:10.5555/a", {"crossref": 503}, False),
        ("doi:10.5555/a", {"crossref": None}, False),
        ("arxiv:1706.03762", {"arxiv": 200}, False),
        ("arxiv:1706.03762", {"arxiv": 429}, True),
        ("arxiv:1706.03762", {"arxiv": None}, True),
    ],
)
def test_datacite_is_asked_where_the_first_cannot_answer(
    reference: str, statuses: dict[str, int | None], *, due: bool
) -> None:
    found = questions(parse_reference(reference), enrich=())
    asked = next(asked for asked in found if asked.source == "datacite")
    assert asked.is_due(statuses) == due
    assert found[0].is_due({})


@pytest.mark.parametrize(("want", "enrich"), [("all", ()), ("metadata", ("google",))])
def test_unknown_wishes_are_an_error(want: str, enrich: tuple[str, ...]) -> None:
    assert questions(DOI, want="metadata", enrich=DEFAULT_ENRICH)
    with pytest.raises(ValueError, match="want one of"):
        questions(DOI, want=want, enrich=enrich)


@pytest.mark.parametrize("want", WANTS)
# claim TG-C-129
def test_only_the_questions_of_an_approved_reference_are_its_questions(want: str) -> None:
    approved = [DOI, parse_reference("arxiv:1706.03762")]
    for reference in approved:
        for asked in questions(reference, want=want, contact=CONTACT):
            assert is_question_of(asked.url, approved, want=want, contact=CONTACT)
            for other in (asked.url + "x", asked.url + "&a=b", asked.url.replace("5555", "5556")):
                expected = other == asked.url
                assert is_question_of(other, approved, want=want, contact=CONTACT) == expected


# claim TG-C-129
def test_what_was_not_approved_is_no_question() -> None:
    ask = "https://api.semanticscholar.org/graph/v1/paper/DOI:10.5555/12345678"
    pdf = "https://arxiv.org/pdf/1706.03762"
    paper = [parse_reference("arxiv:1706.03762")]
    assert is_question_of(pdf, paper, want="full-text")
    assert not is_question_of(pdf, paper, want="metadata")
    assert not is_question_of(pdf, [DOI], want="full-text")
    assert not is_question_of(ask, [DOI], want="metadata"), "on demand is not approved"
    assert not is_question_of(pdf, [], want="full-text")


def test_the_address_is_taken_out_of_what_is_kept() -> None:
    for text in ("doi:10.5555/a", "pmid:1"):
        for asked in questions(parse_reference(text), contact=CONTACT):
            assert "first.last" not in asked.shown
            assert ("REDACTED" in asked.shown) == ("first.last" in asked.url)
    elsewhere = "https://example.org/?email=a@b.org"
    assert without_contact(elsewhere) == elsewhere, "not an address that was put there"


SEARCHES = {
    "crossref": "https://api.crossref.org/works?query=sea%20ice%20%26%20%22albedo%22&rows=5&mailto=a@b.org",
    "arxiv": "https://export.arxiv.org/api/query?search_query=all:sea%20AND%20all:ice%20AND%20all:albedo&max_results=5",
    "openalex": "https://api.openalex.org/works?search=sea%20ice%20%26%20%22albedo%22&per-page=5",
    "europepmc": "https://www.ebi.ac.uk/europepmc/webservices/rest/search?query=sea%20ice%20%26%20%22albedo%22"
    "&resultType=core&format=json&pageSize=5",
}  # fmt: skip


@pytest.mark.parametrize("source", SEARCHABLE)
def test_a_search_is_one_question(source: str) -> None:
    asked = search_question(source, ' sea  ice & "albedo" ', 5, "a@b.org")
    assert (asked.source, asked.role, asked.url) == (source, "search", SEARCHES[source])


@pytest.mark.parametrize(
    ("source", "query", "rows", "why"),
    [
        ("google", "ice", 5, "a search asks one of"),
        ("arxiv", "  ", 5, "an empty query"),
        ("arxiv", "ANDNOT !!", 5, "without a word"),
        ("crossref", "a" * (MAX_QUERY_CHARS + 1), 5, "longer than"),
        ("crossref", "\u4e00" * MAX_QUERY_CHARS, 5, "too long for a URL"),
        ("crossref", "a\x1bb", 5, "control or invisible"),
        ("crossref", "ice", 0, "rows are between"),
        ("crossref", "ice", MAX_ROWS + 1, "rows are between"),
    ],
)
def test_a_search_that_cannot_be_asked(source: str, query: str, rows: int, why: str) -> None:
    assert search_question("crossref", "ice", 5).url
    with pytest.raises(ValueError, match=why):
        search_question(source, query, rows)


@given(st.text(max_size=60), st.sampled_from(SEARCHABLE))
@example("a&rows=9#", "crossref")
def test_any_query_is_one_parameter_or_refused(query: str, source: str) -> None:
    try:
        asked = search_question(source, query, 5)
    except ValueError as exc:
        assert str(exc)
        return
    assert _shape(parse_url(asked.url).query) == _shape(parse_url(SEARCHES[source]).query)[:4] or (
        source == "crossref" and _shape(parse_url(asked.url).query) == ["query", "rows"]
    )


def test_a_packet_names_the_search_it_answers() -> None:
    assert search_reference("crossref", " sea\t ice ") == "search:crossref:sea ice"


def related(relation: str, *names: str, sources: tuple[str, ...] | None = None) -> dict[str, str]:
    chosen = RELATIONS[relation] if sources is None else sources
    parsed = [parse_reference(name) for name in names]
    found = related_questions(relation, parsed, 50, sources=chosen, contact="a@b.org")
    assert {asked.role for asked in found} <= {"related"}
    return {asked.source: asked.url for asked in found}


S2_LIST = "fields=title,authors,year,publicationDate,journal,venue,externalIds&limit=50"
OPENALEX_LIST = (
    "sort=cited_by_count:desc&select=id,doi,ids,display_name,authorships,publication_date,"
    "publication_year,primary_location,is_retracted&per-page=50"
)


def test_each_source_is_asked_for_related_works_by_a_name_that_it_knows() -> None:
    assert related("references", "doi:10.5555/A", "openalex:W7") == {
        "crossref": "https://api.crossref.org/works/10.5555%2Fa?mailto=a@b.org",
        "openalex": f"https://api.openalex.org/works?filter=cited_by:W7&{OPENALEX_LIST}",
        "semanticscholar": (
            f"https://api.semanticscholar.org/graph/v1/paper/DOI:10.5555/a/references?{S2_LIST}"
        ),
    }
    assert related("cited-by", "arxiv:1706.03762v5", "openalex:W7") == {
        "openalex": f"https://api.openalex.org/works?filter=cites:W7&{OPENALEX_LIST}",
        "semanticscholar": (
            f"https://api.semanticscholar.org/graph/v1/paper/ARXIV:1706.03762/citations?{S2_LIST}"
        ),
    }


def test_a_source_that_knows_no_name_of_the_work_is_not_asked() -> None:
    assert related("cited-by", "openalex:W7").keys() == {"openalex"}
    assert related("references", "pmid:31452104").keys() == {"semanticscholar"}
    assert related("references", "https://example.org/") == {}
    assert related("references", "doi:10.5555/a", sources=("crossref",)).keys() == {"crossref"}


def test_of_two_names_the_first_is_asked_for() -> None:
    found = related("references", "doi:10.5555/a", "doi:10.5555/b", sources=("crossref",))
    assert "10.5555%2Fa" in found["crossref"]


@pytest.mark.parametrize("rows", [0, MAX_ROWS + 1])
def test_rows_of_a_list_are_bounded(rows: int) -> None:
    assert related_questions("cited-by", [DOI], 1, sources=RELATIONS["cited-by"])
    with pytest.raises(ValueError, match="rows are between"):
        related_questions("cited-by", [DOI], rows, sources=RELATIONS["cited-by"])


def test_an_approval_of_a_work_covers_no_list_of_related_works() -> None:
    """Such a list is the operator's own question, like a search."""
    asked = related_questions("cited-by", [DOI], 20, sources=RELATIONS["cited-by"])
    assert asked
    for want in WANTS:
        assert not any(is_question_of(one.url, [DOI], want=want) for one in asked)


def test_a_list_is_called_by_its_relation_and_work() -> None:
    assert related_reference("cited-by", DOI) == f"cited-by:{DOI.text}"
