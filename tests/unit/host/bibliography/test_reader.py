"""Reading lists: what names a work is taken, what names none is told with its line."""

import json
import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from threegate.base.text import FORBIDDEN
from threegate.base.untrusted import Untrusted
from threegate.host.bibliography import formats
from threegate.host.bibliography.formats import (
    MAX_DEPTH,
    MAX_ENTRIES,
    MAX_LIST_BYTES,
    EntryUnreadable,
)
from threegate.host.bibliography.reader import ListProblem, ReadingList, read_list

SICI = "10.1002/(sici)1097-4695(20000205)42:2<270::aid-neu10>3.0.co;2-v"


def read(text: str | bytes) -> ReadingList:
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return read_list(Untrusted(data))


def named(text: str) -> list[str]:
    found = read(text)
    assert found.problems == ()
    return [reference.text for reference in found.references]


def test_a_plain_list_has_one_reference_to_a_line() -> None:
    text = """\ufeff# to read
doi:10.5555/a
  10.5555/B   # the second

arxiv:1706.03762\r
https://example.org/a#b c
https://doi.org/10.5555/A
10.5555/x#y
nonsense
"""
    found = read(text)
    assert found.kind == "plain"
    assert [(work.line, work.reference.text) for work in found.works] == [
        (2, "doi:10.5555/a"),
        (3, "doi:10.5555/b"),
        (5, "arxiv:1706.03762"),
        (8, "doi:10.5555/x#y"),
    ]
    assert found.repeated == 1
    assert [problem.line for problem in found.problems] == [6, 9]
    assert "percent-encoding" in found.problems[0].message
    assert '"nonsense": neither doi:' in found.problems[1].message


BIBTEX = r"""
A comment, with an address@example.org in it.
@string{jan = "January"}
@comment{@article{old, doi={10.5555/comment}}}
@preamble{"\newcommand{\x}{10.5555/preamble}"}
@Article{one,
  title = {A {Title} with @article{evil, doi = {10.5555/evil}} inside},
  abstract = {doi = {10.5555/abstract}, },
  DOI = {10.1002/(SICI)1097-4695(20000205)42:2\textless{}270::AID-NEU10\textgreater3.0.CO;2-V},
  month = jan # "~1",
  year = 2000,
}
@misc{two, eprint = "1706.03762v5", archivePrefix = "arXiv", primaryClass={cs.CL}}
@misc(three, url = "\url{https://doi.org/10.5555/abc\_d}") @online{four, doi = {10.5555%2Ffour}}
@article{five, pmid = 31452104, pmcid = {PMC7029158}, url = {http://example.org/}}
@article{six, eprint = {31452105}, eprinttype = {pubmed}}
@article{seven, eprint = {arXiv:math.GT/0309136}, title = "quoted {"} mark"}
@article{eight, doi = "https://dx.doi.org/10.5555/EIGHT"}
@misc{nine, arxivId = {1402.6711}, url = { http://arxiv.org/abs/1402.6711}}
@article{ten, doi = {DOI: 10.1007/978-3-662-46803-6{\_}26}}
"""


def test_bibtex_is_read_as_bibtex_reads_it() -> None:
    assert named(BIBTEX) == [
        f"doi:{SICI}",
        "arxiv:1706.03762v5",
        "doi:10.5555/abc_d",
        "doi:10.5555/four",
        "pmid:31452104",
        "pmid:31452105",
        "arxiv:math/0309136",
        "doi:10.5555/eight",
        "arxiv:1402.6711",
        "doi:10.1007/978-3-662-46803-6_26",
    ]
    works = read(BIBTEX).works
    assert [work.line for work in works] == [6, 13, 14, 14, 15, 16, 17, 18, 19, 20]
    assert [name.text for name in works[4].names] == ["pmid:31452104", "pmcid:PMC7029158"]


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("\n@article{a, title={none}}", 2, "without DOI"),
        ("@article{a, doi={nonsense}}", 1, '"nonsense": not a DOI'),
        ("@article{a, doi={}}", 1, "not a DOI"),
        ("@article{a, doi={10.5555/\u202e}}", 1, "not a DOI"),
        ("@article{a, doi 10.5555/x}", 1, "not a field"),
        ("@article{a, doi = }", 1, "a field without a value"),
        ("@article{a, doi = {10.5555/x} {y}}", 1, "no comma after field doi"),
        ('@article{a, doi = "10.5555/x}', 1, "never closed"),
        ("@article{a, doi = macro}", 1, '"macro": not a DOI'),
        ("@article{a, url = {http://example.org/}}", 1, "does not begin with https://"),
        ("@article{a, doi = {" + "1" * 9000 + "}}", 1, "longer than"),
    ],
)
def test_a_broken_entry_is_told_and_the_next_is_read(text: str, line: int, why: str) -> None:
    found = read(f"{text}\n@misc{{good, doi = {{10.5555/good}}}}")
    if why == "never closed" and not found.problems:
        pytest.fail("taken")
    assert [problem.line for problem in found.problems] == [line]
    assert why in found.problems[0].message
    assert [reference.text for reference in found.references] == ["doi:10.5555/good"]


def test_an_entry_that_is_never_closed_ends_the_reading() -> None:
    good = "@misc{good, doi = {10.5555/good}}\n"
    assert named(good) == ["doi:10.5555/good"]
    with pytest.raises(EntryUnreadable, match="never closed") as refused:
        read(f"{good}@article{{a, doi = {{10.5555/x}}\n{good}")
    assert refused.value.line == 2


RIS = """TY  - JOUR
TI  - A title
DO  - 10.5555/RIS
UR  - https://example.org/x
UR  - https://pubmed.ncbi.nlm.nih.gov/31452104/
ER  -
TY  - RPRT\r
UR  - https://arxiv.org/abs/1706.03762v1\r
a line that goes on\r
ER  - \r

TY  - WEB
UR  - https://example.org/only
ER  -
"""


def test_ris_is_read_from_ty_to_er() -> None:
    assert named(RIS) == ["doi:10.5555/ris", "arxiv:1706.03762v1", "https://example.org/only"]
    first = read(RIS).works[0]
    assert [name.text for name in first.names] == [
        "doi:10.5555/ris",
        "pmid:31452104",
        "https://example.org/x",
    ]
    assert [work.line for work in read(RIS).works] == [1, 7, 12]


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("TY  - JOUR\nTI  - a\nER  - \n", 1, "without DOI"),
        ("TY  - JOUR\nDO  - x\nER  - \n", 1, "not a DOI"),
        ("TY  - JOUR\nDO  - 10.5555/lost\n", 1, "no ER line before"),
        ("DO  - 10.5555/lost\nTI  - a\nER  - \n", 1, "outside an entry"),
    ],
)
def test_a_broken_ris_entry_is_told_and_the_next_is_read(text: str, line: int, why: str) -> None:
    found = read(f"{text}TY  - JOUR\nDO  - 10.5555/good\nER  - \n")
    assert [(problem.line, why in problem.message) for problem in found.problems] == [(line, True)]
    assert [reference.text for reference in found.references] == ["doi:10.5555/good"]


def test_a_ris_file_without_its_end_is_told() -> None:
    assert read("TY  - JOUR\nDO  - 10.5555/a").problems == (
        ListProblem(1, "no ER line at its end"),
    )


CSL = """[
  {"id": "a", "DOI": "10.5555/CSL", "PMID": 31452104, "URL": "https://example.org/"},

  {"id": "b", "archive": "arXiv", "archive_location": "1706.03762"},
  {"id": "c", "number": "arXiv:1706.03762v2", "PMCID": "PMC7029158"}
]
"""


def test_csl_json_is_read_item_by_item() -> None:
    works = read(CSL).works
    assert [(work.line, [name.text for name in work.names]) for work in works] == [
        (2, ["doi:10.5555/csl", "pmid:31452104", "https://example.org/"]),
        (4, ["arxiv:1706.03762"]),
        (5, ["arxiv:1706.03762v2", "pmcid:PMC7029158"]),
    ]
    assert named('{"DOI": "10.5555/one"}') == ["doi:10.5555/one"]
    assert named("[]") == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[{"DOI": "10.5555/a"}', "no comma or ]"),
        ('[{"DOI": "10.5555/a"} {}]', "no comma or ]"),
        ('[{"DOI": "10.5555/a"},]', "not JSON at column"),
        ('[{"DOI": "10.5555/a"}] x', "something after its end"),
        ('{"DOI": "10.5555/a"} x', "something after its end"),
        ('[{"DOI": "10.5555/a", "DOI": "10.5555/b"}]', "a key twice"),
        ('[{"year": NaN}]', "NaN is not JSON"),
        ('[{"year": ' + "9" * 5000 + "}]", "too many digits"),
        ("[" * 100_000, "nested too deep"),
        ("[" + '{"a":' * 100_000, "nested too deep"),
        ("[" * (formats.MAX_CONTAINERS + 1), "lists and objects"),
    ],
)
def test_what_is_no_json_is_refused_as_a_whole(text: str, why: str) -> None:
    assert named('[{"DOI": "10.5555/a"}]') == ["doi:10.5555/a"]
    with pytest.raises(EntryUnreadable, match=why):
        read(text)


def test_an_item_that_is_no_object_is_told() -> None:
    found = read('[1,\n{"DOI": "10.5555/a"},\n{"DOI": ["10.5555/b"]}]')
    assert [problem.line for problem in found.problems] == [1, 3]
    assert [reference.text for reference in found.references] == ["doi:10.5555/a"]


def test_bounds_of_a_list() -> None:
    line = b"10.5555/a\n"
    assert read(line * 10).repeated == 9
    with pytest.raises(EntryUnreadable, match="bytes"):
        read(b"#" * (MAX_LIST_BYTES + 1))
    with pytest.raises(EntryUnreadable, match="entries"):
        read(line * (MAX_ENTRIES + 1))
    with pytest.raises(EntryUnreadable, match="not UTF-8") as refused:
        read(b"10.5555/a\n10.5555/\xff\n")
    assert refused.value.line == 2


def test_braces_are_read_to_a_depth() -> None:
    def nested(depth: int) -> bytes:
        return b"@a{b, title = " + b"{" * depth + b"}" * depth + b", doi = {10.5555/a}}"

    assert len(read(nested(MAX_DEPTH)).works) == 1, "control"
    with pytest.raises(EntryUnreadable, match=f"braces more than {MAX_DEPTH} deep"):
        read(nested(MAX_DEPTH + 1))


BOMBS = {
    "deep braces": "@a{b, title = " + "{" * 1_000_000 + "}" * 1_000_000 + "}",
    "open braces": "@a{" * 1_000_000,
    "open entries": "@a{b, title={x\n" * 300_000,
    "quotation marks": "@a{b, title = " + '"{' * 500_000 + "}}",
    "commas": "@a{b" + "," * 2_000_000 + "}",
    "names": "@" + "a" * 2_000_000 + "{}",
    "at signs": "@" * 2_000_000,
    "white space": "@" + " \n" * 100_000 + "{",
    "joins": "@a{b, doi = " + "{x} # " * 30_000 + "{y}}",
    "commands": "@a{b, doi = {" + "\\textless" * 200_000 + "}}",
    "blank JSON": "[" + " " * 5_000_000 + "]",
    "JSON items": "[" + "0," * 5_000 + "0]",
    "one long line": "TY  - J\nDO  - " + "x" * 5_000_000 + "\nER  - ",
    "one long word": "a" * 5_000_000,
}


@pytest.mark.parametrize("name", BOMBS)
# claim TG-C-130
def test_a_bomb_ends_within_its_bounds(name: str) -> None:
    """Bounded by what it holds in memory; time is linear, as every reader goes on only."""
    data = BOMBS[name].encode()
    assert named("10.5555/control") == ["doi:10.5555/control"]
    tracemalloc.start()
    try:
        found = read(data)
    except EntryUnreadable as exc:
        assert str(exc)
    else:
        assert len(found.problems) <= MAX_ENTRIES
        assert all(len(problem.message) < 300 for problem in found.problems)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 12 * len(data) + 64 * 2**20


LANGUAGE = st.sampled_from(
    [
        "@article{", "@misc(", "}", ")", "{", '"', "\\", "#", ",", "=", "\n", " ", "doi", "url",
        "eprint", "10.5555/a", "10.5555/b", "TY  - JOUR\n", "ER  - \n", "DO  - ", "UR  - ", "[",
        "]", '{"DOI": "10.5555/a"}', '"DOI":', "arxiv:1706.03762", "%3C", "\\textless{}",
        "\ufeff", "\x00", "\x0b", "https://doi.org/10.5555/x", "\u202e", "\ud800",
    ]
)  # fmt: skip


@given(st.lists(LANGUAGE, max_size=40).map("".join) | st.text(max_size=200))
@example("ER  - \nTY  - JOUR\n")
@example("\x0b[]")
@example("@a{" + "{" * (MAX_DEPTH + 1) + "}" * (MAX_DEPTH + 2))
# claim TG-C-130
def test_any_text_is_a_list_or_refused_in_one_line(text: str) -> None:
    try:
        found = read(text)
    except EntryUnreadable as exc:
        assert not FORBIDDEN.search(str(exc))
        return
    assert len(set(found.references)) == len(found.references)
    for problem in found.problems:
        assert problem.line >= 1
        assert not FORBIDDEN.search(problem.message)
        assert "\n" not in problem.message


@given(st.binary(max_size=300))
# claim TG-C-130
def test_any_bytes_are_a_list_or_refused(data: bytes) -> None:
    try:
        assert isinstance(read(data), ReadingList)
    except EntryUnreadable as exc:
        assert str(exc)


@given(st.lists(st.from_regex(r"10\.5555/[a-z0-9.;()<>:-]{1,20}", fullmatch=True), max_size=20))
def test_every_format_names_the_same_works(dois: list[str]) -> None:
    dois = [doi for doi in dois if not doi.endswith(("/.", "/.."))]
    lists = {
        "plain": "".join(f"{doi}\n" for doi in dois),
        "BibTeX": "".join(f"@misc{{k, doi = {{{doi}}}}}\n" for doi in dois),
        "RIS": "".join(f"TY  - JOUR\nDO  - {doi}\nER  - \n" for doi in dois),
        "CSL-JSON": json.dumps([{"DOI": doi} for doi in dois]),
    }
    expected = list(dict.fromkeys(f"doi:{doi}" for doi in dois))
    for text in lists.values():
        assert named(text) == expected
