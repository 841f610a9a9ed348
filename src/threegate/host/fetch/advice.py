"""What to do about a question that came to nothing: one sentence for each kind of failure.

"Run it again" is said only where that may help.  What stays as it is until somebody changes the
policy, the reference or the server is told so.
"""

from typing import Final

from threegate.base.errors import GateUnavailable, ThreeGateError
from threegate.gates.fetch.retrieve.messages import NotGot
from threegate.host.fetch.budgets import OVER_BYTES, OVER_RATE
from threegate.host.fetch.pace import NO_NETWORK
from threegate.host.fetch.plan import SEARCH, Wish

AGAIN: Final = "run the command again"
_LATER: Final = f"{AGAIN} later"
_SPELLING: Final = "look whether it is spelled right"
_THEIRS: Final = "it is the server's to mend; asking again will hardly help"
_FILE: Final = "policy/fetch.policy.md"
_APPLY: Final = "then `threegate policy apply`"
_KEY: Final = "`threegate credential list` shows your keys for hosts"

FORBIDDEN: Final = "TG-FET-021"  # the one denial that is the server's and not ours
_BY_CODE: Final = {
    "TG-FET-001": _SPELLING,
    "TG-FET-002": f"hosts are listed in {_FILE}; {_APPLY}",
    "TG-FET-004": f"`content_types` of the host in {_FILE} lists what is taken; {_APPLY}",
    "TG-FET-005": _THEIRS,
    "TG-FET-006": f"`response_bytes` of the host in {_FILE} is the bound; {_APPLY}",
    "TG-FET-007": f"{AGAIN}; `deadline_seconds` in {_FILE} is the bound",
    "TG-FET-008": f"`redirects` in {_FILE} is the bound; {_APPLY}",
    "TG-FET-009": _THEIRS,
    "TG-FET-010": f"redirects lead to hosts that {_FILE} lists; `threegate policy explain URL`",
    "TG-FET-011": "`threegate audit show` has the proxy's decision and its reason",
    "TG-FET-012": f"look whether this machine is online and the name is right, then {AGAIN}",
    "TG-FET-013": f"`proxy` in {_FILE} names the way out; {AGAIN}",
    "TG-FET-014": f"`trust_anchors` in {_FILE} says whose certificates count",
    "TG-FET-015": _THEIRS,
    "TG-FET-017": _THEIRS,
    "TG-FET-018": _SPELLING,
    "TG-FET-019": _LATER,
    "TG-FET-020": _LATER,
    FORBIDDEN: f"the server does not serve it to everybody; {_KEY}",
    "TG-FET-022": _THEIRS,
    "TG-FET-023": _KEY,
    "TG-FET-024": f"the server repeats your key; {_KEY}",
    "TG-FET-031": (
        "look whether the host is spelled right; a network without internet access, such as one "
        f"that wants a login, answers like this too. Then {AGAIN}"
    ),
    "TG-FET-068": f"the server repeats your key; {_KEY}",
    "TG-FET-069": f"hosts are listed in {_FILE}; {_APPLY}",
    "TG-FET-074": "`--enrich none` asks fewer sources",
    "TG-FET-078": _LATER,
    OVER_BYTES: f"it is another budget tomorrow; `bytes_per_day` stands in {_FILE}",
    OVER_RATE: f"`rate_per_minute` of the host stands in {_FILE}; {_LATER}",
}


def is_refusal(why: NotGot) -> bool:
    """Tell whether it was refused on this side: by policy, budget, box or proxy."""
    return why.reason == "denied" and why.code != FORBIDDEN


def advice(why: NotGot) -> str:
    """Return what to do next."""
    again = f"{AGAIN}: what failed is tried again"
    return _BY_CODE.get(why.code, again if why.reason in ("failed", "timed-out") else "")


def no_network() -> GateUnavailable:
    """Return that no name can be resolved here, so that nothing can be asked."""
    hint = f"connect this machine to a network, then {AGAIN}; `--dry-run` needs none"
    return GateUnavailable("no network: no name server answers", code=NO_NETWORK, hint=hint)


def unknown(wish: Wish, told: ThreeGateError) -> GateUnavailable:
    """Return that every source answered, and none knows what was asked for."""
    if wish.scheme == SEARCH:
        return GateUnavailable(
            "nothing was found", code=told.code, hint="other words, or another --source"
        )
    return GateUnavailable(told.message, code=told.code, hint=_SPELLING)
