"""What policy says about one question, taken out of the bundle once.

A box works for one purpose: its hosts are those of that purpose and no others.
"""

from dataclasses import dataclass
from typing import Final

from threegate.base.errors import PolicyDenied
from threegate.base.forms import SYSTEM_ANCHOR
from threegate.base.limits import MAX_BODY_BYTES, MAX_PART_SECONDS
from threegate.gates.http_library.client import Failure, NotRetrieved
from threegate.keys.sshsig import sha256_hex
from threegate.policy.bundle import Bundle
from threegate.policy.decide import may_connect
from threegate.policy.decision import Allow
from threegate.policy.hosts import matches
from threegate.policy.purposes import PACKETS, download_list
from threegate.policy.sections.fetch import OWN_PROXY

UNLISTED_ANCHOR: Final = "TG-FET-026"
MISSING_ANCHOR: Final = "TG-FET-027"
OTHER_PURPOSE: Final = "TG-FET-030"
_DIGEST: Final = "sha256:"


@dataclass(frozen=True, slots=True)
class HostRule:
    """What the rule for one host grants."""

    content_types: frozenset[str] | None  # None: whatever it is, its digest says so
    response_bytes: int
    credential: tuple[str, str] | None  # `query` or `header`, and the name


@dataclass(frozen=True, slots=True)
class RetrieveRules:
    """The section `fetch` of a bundle, as far as one question needs it."""

    bundle: Bundle
    contact: str | None
    redirects: int
    seconds: int
    header_bytes: int
    gateway: bool  # the proxy is asked in the clear, and does TLS for us
    purpose: str = PACKETS

    @property
    def downloads(self) -> str | None:
        """Return the list of downloads this is for; None for packets."""
        return download_list(self.purpose)

    def for_host(self, host: str) -> HostRule:
        """Return the rule for `host`, or raise `NotRetrieved`."""
        if self.downloads is not None:
            return self._for_download(host)
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
        raise NotRetrieved(Failure.HOST, f"no rule covers the host {host}")

    def _for_download(self, host: str) -> HostRule:
        if not isinstance(may_connect(self.bundle, host, self.purpose), Allow):
            raise NotRetrieved(Failure.HOST, f"the list of downloads does not have the host {host}")
        return HostRule(None, MAX_BODY_BYTES, None)


def rules_of(bundle: Bundle, purpose: str = PACKETS) -> RetrieveRules:
    """Return the rules in `bundle` for this purpose; raise `PolicyDenied` if it has none."""
    downloads = download_list(purpose)
    listed = downloads is not None and bundle.has("fetch", "downloads", downloads)
    if purpose != PACKETS and not listed:
        raise PolicyDenied("policy has nothing for this purpose", code=OTHER_PURPOSE)
    seconds = bundle.integer("fetch", "deadline_seconds")
    if downloads is not None:
        whole = bundle.integer("fetch", "downloads", downloads, "deadline_seconds")
        seconds = min(whole, MAX_PART_SECONDS)
    contact = bundle.value("fetch", "contact")
    assert contact is None or isinstance(contact, str)
    way = bundle.text("fetch", "proxy")
    return RetrieveRules(
        bundle,
        contact,
        redirects=bundle.integer("fetch", "redirects"),
        seconds=seconds,
        header_bytes=bundle.integer("fetch", "header_bytes"),
        gateway=way != OWN_PROXY and way.startswith("gateway:"),
        purpose=purpose,
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
