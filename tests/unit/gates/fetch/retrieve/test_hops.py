"""URLs that three parsers read alike, and where redirects lead."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.gates.fetch.retrieve.hops import Address, check_url, follow
from threegate.policy.hosts import parse_url

BASE = check_url("https://api.crossref.org/works/10.5555%2F1?a=b")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("https://doi.org", Address("doi.org", "/")),
        ("https://doi.org/", Address("doi.org", "/")),
        ("https://doi.org:443/10.1000/182", Address("doi.org", "/10.1000/182")),
        ("https://doi.org/10.1000%2F182", Address("doi.org", "/10.1000%2F182")),
        ("https://doi.org/a?b=c%26d&e='f'", Address("doi.org", "/a?b=c%26d&e='f'")),
        ("https://doi.org/a?", Address("doi.org", "/a?")),
        ("https://doi.org/a;b=c//d", Address("doi.org", "/a;b=c//d")),
        ("https://xn--bcher-kva.example.org/", Address("xn--bcher-kva.example.org", "/")),
    ],
)
def test_a_url_is_taken_as_it_is_spelled(text: str, address: Address) -> None:
    assert check_url(text) == address
    assert check_url(address.text) == address, "what is reported is asked for alike"


@pytest.mark.parametrize(
    "text",
    [
        "http://doi.org/",
        "https://doi.org@evil.example/",
        "https://doi.org:8443/",
        "https://doi.org\\@evil.example/",
        "https://doi.org/a b",
        "https://doi.org/#x",
        "https://doi.org/../x",
        "https://doi.org/%2e%2e/x",
        "https://doi.org./",
        "https://DOI.org/",
        "https://127.0.0.1/",
        "https://0x7f.1/",
        "https://[::1]/",
        "https://xn--/",
        "file:///etc/passwd",
        "https:doi.org/x",
        "",
    ],
)
def test_a_url_that_somebody_could_read_otherwise_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"[a-z]"):
        check_url(text)


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("https://api.crossref.org:443/x", "https://api.crossref.org/x"),
        ("https://evil.example/x", "https://evil.example/x"),  # its host is the policy's question
        ("/other?c=d", "https://api.crossref.org/other?c=d"),
        ("//arxiv.org/pdf/1", "https://arxiv.org/pdf/1"),
        ("sibling", "https://api.crossref.org/works/sibling"),
        ("?q=1", "https://api.crossref.org/works/10.5555%2F1?q=1"),
        ("../x", "https://api.crossref.org/x"),
        ("/page#section", "https://api.crossref.org/page"),
        ("https://doi.org#@evil.example/", "https://doi.org/"),
    ],
)
def test_a_redirect_leads_where_both_parsers_say(location: str, url: str) -> None:
    assert follow(BASE, location).text == url


@pytest.mark.parametrize(
    "location",
    [
        "",
        "http://api.crossref.org/",
        "https:evil.example/x",
        "https:///evil.example/x",
        "https://api.crossref.org\\@evil.example/",
        "https://api.crossref.org@evil.example/",
        "\\\\evil.example/",
        "/\\evil.example/",
        "///evil.example/",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "data:text/html,x",
        "ftp://api.crossref.org/",
        "https://api.crossref.org:8443/",
        "https://10.9.9.9/",
        "https://2130706433/",
        "https://localhost/",
        "https://api.crossref.org/\r\nX: y",
        "https://api.crossref.org/a b",
        "https://api.crossref.org/%0d%0aX:%20y",
        "https://api.crossref.org/\x00",
        "https://\u212bpi.crossref.org/",
        "https://xn--/",
        "https://api.crossref.org./",
        "https://API.crossref.org/",
        "https://api.crossref.org/" + "a" * 2048,
    ],
)
def test_a_hostile_location_is_refused(location: str) -> None:
    assert follow(BASE, "/control").text == "https://api.crossref.org/control"
    with pytest.raises(ValueError, match=r"[a-z]"):
        follow(BASE, location)


@given(
    st.text(st.sampled_from("htps:/.\\@?#%&[]evil-0x7f \t\n2e=;'\"<>"), max_size=40)
    | st.text(max_size=20)
)
def test_whatever_a_redirect_says_it_leads_to_a_url_of_our_grammar_or_nowhere(text: str) -> None:
    try:
        found = follow(BASE, text)
    except ValueError:
        return
    assert parse_url(found.text).host == found.host
    assert check_url(found.text) == found
