"""`fetch.policy.md`: which hosts FETCH may ask, how often, and for how much."""

from typing import Final

from threegate.base.text import quote
from threegate.policy.hosts import check_pattern, matches, parse_url
from threegate.policy.leaves import BYTES, NAME, SECONDS, LeafValue, Number, Word, WordChoice
from threegate.policy.limits import MAX_HOST_RULES
from threegate.policy.nodes import Effect, Path, PolicyReason, RuleReader, wider_if
from threegate.policy.schema import Examples, RuleField, RuleGroup, RuleRecord, RuleTable
from threegate.policy.sections.section import Rules, RuleSection, block_of

NAME_OF_SECTION: Final = "fetch"

PATTERN: Final = Word(
    r"(?:\*\.)?[a-z0-9.-]+",
    "a host, or `*.` before one for a single label",
    most=255,
    check=check_pattern,
)
CONTENT_TYPE: Final = Word(
    r"[a-z0-9][a-z0-9.+-]*/[a-z0-9][a-z0-9.+-]*", "a content type without parameters"
)
EMAIL: Final = Word(
    r"[A-Za-z0-9][A-Za-z0-9._+-]*@[a-z0-9-]+(?:\.[a-z0-9-]+)+",
    "an e-mail address",
    most=254,
    optional="narrowest",
)
CREDENTIAL: Final = Word(
    r"(?:query|header):[A-Za-z][A-Za-z0-9_-]{0,63}",
    "`query:NAME` or `header:NAME`",
    optional="narrowest",
)
TRUST_ANCHOR: Final = Word(
    r"system|sha256:[0-9a-f]{64}", "`system`, or `sha256:` and the digest of a CA file"
)

OWN_PROXY: Final = "own"


class ProxyWord(Word):
    """The proxy of FETCH: ours, or one that somebody else runs."""

    __slots__ = ()

    def effect(self, old: LeafValue, new: LeafValue) -> Effect:
        """Return `widens` for any proxy but ours: it may do less than ours checks."""
        return wider_if(new not in (OWN_PROXY, old))

    def wider(self) -> str:
        """Return which change lets more happen, for people."""
        return f"any new value but `{OWN_PROXY}`"


PROXY: Final = ProxyWord(
    rf"{OWN_PROXY}|(?:connect|gateway):(?:/[A-Za-z0-9_][A-Za-z0-9._-]*)+",
    "`own`, or `connect:` or `gateway:` and the whole path of a Unix socket",
    most=116,  # a Unix socket's path has at most 107 characters
)

HOST_RULE: Final = RuleRecord(
    (
        RuleField("rate_per_minute", Number(1, 6_000), "requests per minute"),
        RuleField("concurrency", Number(1, 16), "connections at a time"),
        RuleField("bytes_per_day", Number(0, 2**40, BYTES), "bytes per day"),
        RuleField("response_bytes", Number(1, 2**32, BYTES), "bytes in one response"),
        RuleField("content_types", RuleGroup(CONTENT_TYPE, most=64), "content types"),
        RuleField("credential", CREDENTIAL, "where the operator's key for this host goes"),
        RuleField("match", Examples("URLs this rule must cover"), "examples"),
        RuleField("not_match", Examples("URLs this rule must not cover"), "counter-examples"),
    )
)

DOWNLOADS: Final = RuleRecord(
    (
        RuleField("hosts", RuleGroup(PATTERN, most=64), "hosts"),
        RuleField("response_bytes", Number(1, 2**40, BYTES), "bytes in one file"),
        RuleField("deadline_seconds", Number(1, 604_800, SECONDS), "time for one file"),
    )
)

RECORD: Final = RuleRecord(
    (
        RuleField(
            "may_read",
            RuleGroup(WordChoice(("approval", "fetch-request"))),
            "artifacts FETCH may read",
        ),
        RuleField(
            "may_draft", RuleGroup(WordChoice(("research-packet",))), "artifacts FETCH may make"
        ),
        RuleField(
            "operator_requests", WordChoice(("deny", "ask", "allow")), "the operator's own requests"
        ),
        RuleField("drafts", WordChoice(("deny", "ask")), "requests that CORE drafted"),
        RuleField("contact", EMAIL, "address that FETCH gives to the hosts it asks"),
        RuleField("proxy", PROXY, "the proxy FETCH goes through"),
        RuleField(
            "trust_anchors", RuleGroup(TRUST_ANCHOR, most=8, least=1), "certificate authorities"
        ),
        RuleField("redirects", Number(0, 10), "redirects followed for one request"),
        RuleField("deadline_seconds", Number(1, 3_600, SECONDS), "time for one request, all hops"),
        RuleField("header_bytes", Number(1_024, 2**20, BYTES), "bytes of headers in one response"),
        RuleField("bytes_per_day", Number(0, 2**44, BYTES), "bytes per day from all hosts"),
        RuleField(
            "hosts", RuleTable(PATTERN, HOST_RULE, most=MAX_HOST_RULES), "hosts FETCH may ask"
        ),
        RuleField(
            "downloads",
            RuleTable(NAME, DOWNLOADS, most=16),
            "downloads the set-up commands may make",
        ),
    )
)


def _check(rules: Rules, reader: RuleReader) -> None:
    patterns = block_of(rules, "hosts")
    for pattern in patterns:
        _check_overlap(pattern, patterns, reader)
        _check_examples(pattern, (NAME_OF_SECTION, "hosts", pattern), reader)


def _check_overlap(pattern: str, patterns: Rules, reader: RuleReader) -> None:
    """Refuse two rules for one name: their order would decide, and removing one could widen."""
    wildcard = f"*.{pattern.partition('.')[2]}"
    if not pattern.startswith("*.") and wildcard in patterns:
        path = (NAME_OF_SECTION, "hosts", pattern)
        raise reader.fail_at(
            PolicyReason.CONFLICT, path, f"{quote(wildcard)} already covers {pattern}"
        )


def _check_examples(pattern: str, path: Path, reader: RuleReader) -> None:
    for key, expected in (("match", True), ("not_match", False)):
        for example in reader.examples[(*path, key)]:
            if _covers(pattern, example.text) != expected:
                verb = "does not cover" if expected else "covers"
                message = f"rule {quote(pattern)} {verb} its {key} example {quote(example.text)}"
                raise reader.fail(PolicyReason.EXAMPLE, example.line, message)


def _covers(pattern: str, url: str) -> bool:
    try:
        return matches(pattern, parse_url(url).host)
    except ValueError:
        return False


SECTION: Final = RuleSection(NAME_OF_SECTION, "fetch.policy.md", RECORD, _check)
