"""URLs and host patterns: one spelling, or refused with the reason."""

from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from threegate.policy.hosts import check_host, check_pattern, matches, parse_url

ACCEPTED = {
    "https://a.org": "a.org",
    "https://a.org/": "a.org",
    "https://a.org:443/x?y=1": "a.org",
    "https://api.crossref.org/works/10.5555%2F12345678": "api.crossref.org",
    "https://xn--bcher-kva.example/": "xn--bcher-kva.example",
    "https://a-b.c-d.org/~x/(y);z=1,2/@k:v/*!$'": "a-b.c-d.org",
    "https://a.org/?q=a/b?c:d@e": "a.org",
    "https://a.xn--p1ai/": "a.xn--p1ai",
}
REFUSED = {
    "http://a.org/": "not an https",
    "HTTPS://a.org/": "not an https",
    "https:/a.org/": "not an https",
    "https:a.org": "not an https",
    " https://a.org/": "not an https",
    "javascript:alert(1)": "not an https",
    "file:///etc/passwd": "not an https",
    "": "not an https",
    "https://user@a.org/": "user information",
    "https://a.org@evil.org/": "user information",
    "https://a.org:443@evil.org/": "user information",
    "https://a.org:8443/": "port other than 443",
    "https://a.org:/": "port other than 443",
    "https://a.org:0443/": "port other than 443",
    "https://a.org:443:443/": "port other than 443",
    "https://[::1]/": "address instead of a name",
    "https://127.0.0.1/": "read as an address",
    "https://127.1/": "read as an address",
    "https://0x7f.1/": "read as an address",
    "https://a.0x7f/": "read as an address",
    "https://a.org.1/": "read as an address",
    "https://2130706433/": "without a domain",
    "https://localhost/": "without a domain",
    "https://metadata.google.internal/": "never public",
    "https://printer.local/": "never public",
    "https://x.onion/": "never public",
    "https://a.org./": "trailing dot",
    "https://.a.org/": "empty label",
    "https://a..org/": "empty label",
    "https://A.org/": "lower-case",
    "https://-a.org/": "lower-case",
    "https://a-.org/": "lower-case",
    "https://a_b.org/": "lower-case",
    "https://%61.org/": "lower-case",
    "https://bücher.example/": "lower-case",
    "https:///a.org/": "lower-case",
    "https://a.org\\.evil.org/": "percent-encoding",
    "https://a.org\\@evil.org/": "percent-encoding",
    "https://xn--a.org/": "Punycode",
    "https://xn--.org/": "lower-case",
    "https://xn--abc-.org/": "lower-case",
    "https://ab--cd.org/": "Punycode",
    "https://xn--BCHER-KVA.example/": "lower-case",
    "https://a.org?x=1": "query without a path",
    "https://a.org/#frag": "fragment",
    "https://a.org/a b": "percent-encoding",
    "https://a.org/\n": "percent-encoding",
    "https://a.org/ü": "percent-encoding",
    "https://a.org/%": "percent-encoding",
    "https://a.org/%zz": "percent-encoding",
    "https://a.org/%0d%0aHost:evil": "encoded control",
    "https://a.org/?%00": "encoded control",
    "https://a.org/%7f": "encoded control",
    "https://a.org/../x": r"\. or \.\.",
    "https://a.org/x/..": r"\. or \.\.",
    "https://a.org/./x": r"\. or \.\.",
    "https://a.org/%2e%2E/x": r"\. or \.\.",
    "https://a.org/.%2e/x": r"\. or \.\.",
    f"https://{'a' * 64}.org/": "lower-case",
    f"https://{'a.' * 127}org/": "253",
    f"https://a.org/{'x' * 2048}": "2048",
}


@pytest.mark.parametrize(("url", "host"), ACCEPTED.items())
def test_one_spelling_is_accepted(url: str, host: str) -> None:
    assert parse_url(url).host == host


@pytest.mark.parametrize(("url", "reason"), REFUSED.items())
# claim TG-C-33
def test_ambiguous_url_is_refused(url: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_url(url)


URL_PIECES = st.lists(
    st.sampled_from(
        [
            *("https://", "http:", "a.org", "evil.org", "@", ":", "443", "/", "\\", "?", "#", "%"),
            *("2e", "..", ".", "[", "]", "::1", "xn--", "\t", "\n", "\0", " ", "é", "0x7f", "-"),
        ]
    ),
    max_size=12,
).map("".join)


@given(st.one_of(st.text(), URL_PIECES, URL_PIECES.map(lambda rest: f"https://a.org{rest}")))
@example("https://a.org:443/")
# claim TG-C-33
def test_any_text_is_a_url_or_a_value_error_and_other_parsers_agree(text: str) -> None:
    try:
        url = parse_url(text)
    except ValueError:
        return
    split = urlsplit(text)
    assert (split.scheme, split.hostname, split.username) == ("https", url.host, None)
    assert split.port in {None, 443}
    assert text.isascii()
    assert text.isprintable()


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("*", "without a domain"),
        ("*.org", "without a domain"),
        ("*.co.uk", "public suffix"),
        ("co.uk", "public suffix"),
        ("*.github.io", "public suffix"),
        ("*.amazonaws.com", "public suffix"),
        ("**.a.org", "lower-case"),
        ("*.*.org", "lower-case"),
        ("a.*.org", "lower-case"),
        ("*a.b.org", "lower-case"),
        ("*.a.org.", "trailing dot"),
        ("*.1.2.3", "read as an address"),
        ("*.corp.internal", "never public"),
        ("A.org", "lower-case"),
        ("a.org:443", "lower-case"),
        ("a.org/x", "lower-case"),
        ("", "without a domain"),
    ],
)
def test_pattern_that_could_mean_too_much_is_refused(pattern: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        check_pattern(pattern)


@pytest.mark.parametrize(
    "pattern", ["a.org", "*.a.org", "www.ac.uk", "*.cam.ac.uk", "me.github.io"]
)
def test_pattern_of_one_owner_is_accepted(pattern: str) -> None:
    check_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "host", "expected"),
    [
        ("a.org", "a.org", True),
        ("a.org", "www.a.org", False),
        ("a.org", "xa.org", False),
        ("*.a.org", "www.a.org", True),
        ("*.a.org", "a.org", False),
        ("*.a.org", "x.www.a.org", False),
        ("*.a.org", "www.a.org.evil.org", False),
        ("*.a.org", "xa.org", False),
    ],
)
def test_wildcard_stands_for_exactly_one_label(pattern: str, host: str, expected: bool) -> None:
    assert matches(pattern, host) is expected


@given(st.text(alphabet="abcxn0-9.", max_size=80))
def test_punycode_never_escapes_as_another_exception(text: str) -> None:
    try:
        check_host(f"xn--{text}.org")
    except ValueError as exc:
        assert not isinstance(exc, UnicodeError), "wrapped, so that the reason is ours"
