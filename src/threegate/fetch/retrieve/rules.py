"""What policy says about one question, taken out of the bundle once."""

from dataclasses import dataclass
from typing import Final

from threegate.errors import PolicyDenied
from threegate.https.refused import NotRetrieved, Why
from threegate.keys.digest import sha256_hex
from threegate.policy.bundle import Bundle
from threegate.policy.hosts import matches
from threegate.policy.sections.fetch import OWN_PROXY
from threegate.protocol.limits import MAX_BODY_BYTES
from threegate.protocol.retrieve import SYSTEM_ANCHOR

UNLISTED_ANCHOR: Final = "TG-FET-026"
MISSING_ANCHOR: Final = "TG-FET-027"
_DIGEST: Final = "sha256:"


@dataclass(frozen=True, slots=True)
class HostRule:
    """What the rule for one host grants."""

    content_types: frozenset[str]
    response_bytes: int
    credential: tuple[str, str] | None  # `query` or `header`, and the name


@dataclass(frozen=True, slots=True)
class Rules:
    """The section `fetch` of a bundle, as far as one question needs it."""

    bundle: Bundle
    contact: str | None
    redirects: int
    seconds: int
    header_bytes: int
    gateway: bool  # the proxy is asked in the clear, and does TLS for us

    def for_host(self, host: str) -> HostRule:
        """Return the rule for `host`, or raise `NotRetrieved`."""
        hosts = ("fetch", "hosts")
        for pattern in self.bundle.words(*hosts):
            if matches(pattern, host):
                place = self.bundle.value(*hosts, pattern, "credential")
                assert place is None or isinstance(place, str)
                kind, _, name = (place or "").partition(":")
                return HostRule(
                    frozenset(self.bundle.words(*hosts, pattern, "content_types")),
                    min(self.bundle.integer(*hosts, pattern, "response_bytes"), MAX_BODY_BYTES),
                    (kind, name) if place else None,
                )
        raise NotRetrieved(Why.HOST, f"no rule covers the host {host}")


def rules_of(bundle: Bundle) -> Rules:
    """Return the rules in `bundle`."""
    contact = bundle.value("fetch", "contact")
    assert contact is None or isinstance(contact, str)
    way = bundle.text("fetch", "proxy")
    return Rules(
        bundle,
        contact,
        redirects=bundle.integer("fetch", "redirects"),
        seconds=bundle.integer("fetch", "deadline_seconds"),
        header_bytes=bundle.integer("fetch", "header_bytes"),
        gateway=way != OWN_PROXY and way.startswith("gateway:"),
    )


def anchors_of(bundle: Bundle, given: tuple[bytes, ...]) -> dict[str, bytes | None]:
    """Return the CA files policy lists, by digest; None stands for the system's store.

    Raises `PolicyDenied`: neither may a file be used that is not listed, nor may one be
    missing, because certificates would then be refused for a reason nobody could see.
    """
    files = {sha256_hex(data): data for data in given}
    listed = bundle.words("fetch", "trust_anchors")
    if not {f"{_DIGEST}{digest}" for digest in files} <= set(listed):
        raise PolicyDenied("a CA file that policy does not list", code=UNLISTED_ANCHOR)
    found: dict[str, bytes | None] = {}
    for word in listed:
        digest = word.removeprefix(_DIGEST)
        if word != SYSTEM_ANCHOR and digest not in files:
            raise PolicyDenied(f"the CA file {digest[:12]} is not there", code=MISSING_ANCHOR)
        found[digest] = files.get(digest)
    return found
