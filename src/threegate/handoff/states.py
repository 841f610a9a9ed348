"""The directories of a workspace, the file names allowed in each, and the moves that exist.

Pure data: widening anything here is a security change.
"""

import re
from typing import Final

HANDOFF: Final = "handoff"
INCOMING: Final = "handoff/incoming"
QUARANTINE: Final = "handoff/quarantine"
BLOBS: Final = "handoff/blobs"
LEASES: Final = "handoff/leases"
RESERVE: Final = "handoff/reserve"
TOMBSTONES: Final = "handoff/tombstones"
BUNDLES: Final = "bundles"
CHECKPOINTS: Final = "audit/checkpoints"
CURRENT: Final = "current.json"  # in `bundles`: which policy is in force

REQUEST_STATES: Final = ("draft", "held", "approved", "claimed", "done", "denied", "expired")
APPROVAL_STATES: Final = ("accepted", "spent", "revoked")

ARTIFACT_STATES: Final[dict[str, tuple[str, ...]]] = {
    "rp": ("handoff/packets/accepted",),
    "fr": tuple(f"handoff/requests/{state}" for state in REQUEST_STATES),
    "tr": tuple(f"handoff/requests/{state}" for state in REQUEST_STATES),
    "ap": tuple(f"handoff/approvals/{state}" for state in APPROVAL_STATES),
    "res": ("handoff/results/accepted",),
    "an": ("handoff/analyses/accepted",),
}

REQUEST_MOVES: Final = frozenset(
    {
        ("draft", "held"),
        ("draft", "denied"),
        ("draft", "expired"),
        ("held", "approved"),
        ("held", "denied"),
        ("held", "expired"),
        ("approved", "claimed"),
        ("approved", "held"),  # its approval expired, was revoked or voided by a new policy
        ("approved", "denied"),
        ("approved", "expired"),
        ("claimed", "done"),
        ("claimed", "approved"),  # its approval has uses left
        ("claimed", "held"),  # the claimer died; a human decides again
    }
)
APPROVAL_MOVES: Final = frozenset({("accepted", "spent"), ("accepted", "revoked")})

_DIGEST: Final = "[0-9a-f]{64}"
_ID: Final = rf"(?:rp|fr|tr|ap|res|an)-{_DIGEST}"

# File names allowed in each directory.  Any other file there is stray: reported, never read.
NAMES: Final[dict[str, re.Pattern[str]]] = {
    INCOMING: re.compile(r"\A[0-9]{1,16}\Z"),
    # Bytes that never became an artifact are named `.bytes`; withdrawn artifacts and the files
    # beside them keep their names.
    QUARANTINE: re.compile(
        rf"\A(?:{_DIGEST}\.(?:bytes|why\.json)|{_ID}\.(?:md|withdrawn\.json)"
        rf"|ap-{_DIGEST}\.(?:sig|uses\.json)|(?:fr|tr)-{_DIGEST}\.why\.json)\Z"
    ),
    "handoff/packets/accepted": re.compile(r"\Arp-[0-9a-f]{64}\.md\Z"),
    **{
        f"handoff/requests/{state}": re.compile(r"\A(?:fr|tr)-[0-9a-f]{64}\.md\Z")
        for state in REQUEST_STATES
    },
    # A denied request has its reason beside it.
    "handoff/requests/denied": re.compile(r"\A(?:fr|tr)-[0-9a-f]{64}\.(?:md|why\.json)\Z"),
    # An approval, its signature, and a counter if it has more than one use.
    **{
        f"handoff/approvals/{state}": re.compile(r"\Aap-[0-9a-f]{64}\.(?:md|sig|uses\.json)\Z")
        for state in APPROVAL_STATES
    },
    "handoff/results/accepted": re.compile(r"\Ares-[0-9a-f]{64}\.md\Z"),
    "handoff/analyses/accepted": re.compile(r"\Aan-[0-9a-f]{64}\.md\Z"),
    BLOBS: re.compile(rf"\A{_DIGEST}\Z"),
    LEASES: re.compile(r"\A[0-9]{1,16}\.json\Z"),
    TOMBSTONES: re.compile(r"\A(?:rp|fr|tr|ap|res|an|blob)-[0-9a-f]{64}\.(?:json|sig)\Z"),
    CHECKPOINTS: re.compile(r"\Acheckpoint-(?:0|[1-9][0-9]{0,15})\.txt(?:\.sig)?\Z"),
    BUNDLES: re.compile(rf"\A(?:{_DIGEST}\.(?:json|sig)|current\.json)\Z"),
}
DIRECTORIES: Final = (*NAMES, RESERVE)  # reserved room is not an artifact and not in the log

# The part of a name that is the digest of the content, if there is one.
_CONTENT_DIGEST: Final = re.compile(
    rf"\A(?:(?:rp|fr|tr|ap|res|an)-({_DIGEST})\.md|({_DIGEST})(?:\.bytes|\.json)?)\Z"
)

# Files beside an artifact's own file that move with it.
BESIDE: Final = (".sig", ".uses.json", ".why.json")


def content_digest_in(name: str) -> str | None:
    """Return the digest that the content of a file of this name must have, if any."""
    match = _CONTENT_DIGEST.match(name)
    return None if match is None else match.group(1) or match.group(2)


def directory_of(prefix: str, state: str) -> str:
    """Return the directory of artifacts of a kind in a state."""
    for directory in ARTIFACT_STATES[prefix]:
        if directory.endswith("/" + state):
            return directory
    raise KeyError(f"{prefix} has no state {state}")


def state_of(directory: str) -> str:
    """Return the state a directory stands for."""
    return directory.rpartition("/")[2]
