"""The parts of a review sheet, and the styled lines it is shown as: plain frozen data.

Texts marked foreign are as the artifact holds them.  The code that shows them spells them out.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CodeToken:
    """One word of code; `line` counts from 1, `start` and `end` are columns in it."""

    kind: str
    text: str
    line: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Flag:
    """Something a reviewer should look at; a flag decides nothing."""

    name: str
    reason: str  # our words; foreign parts are quoted
    line: int | None = None  # of the code


@dataclass(frozen=True, slots=True)
class Code:
    """The program, as it will run."""

    text: str  # foreign
    sha256: str
    bytes: int
    lines: tuple[str, ...]
    tokens: tuple[CodeToken, ...]


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit of a run: the value asked for, the default and the maximum of policy."""

    name: str
    words: str
    asked: int
    usual: int
    most: int
    shown: tuple[str, str, str]  # asked, usual and most, with units

    @property
    def raised(self) -> bool:
        """Tell whether the request asks for more than it would get without asking."""
        return self.asked > self.usual


@dataclass(frozen=True, slots=True)
class SheetFunction:
    """An external function the code may call."""

    name: str
    meaning: str
    bounds: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class SheetInput:
    """One input: what it is, how large, and where it comes from."""

    name: str
    artifact: str
    bytes: int
    kind: str
    origin: str  # ours: retracted, how a run ended, the host of a packet, who brought a file
    problem: str  # why it cannot be read, or nothing
    title: str = ""  # foreign: its headline
    is_external: bool = False  # raw bytes of a packet


@dataclass(frozen=True, slots=True)
class SheetSource:
    """One artifact that the request goes back to."""

    id: str
    kind: str
    host: str
    title: str  # foreign: its headline
    remarks: tuple[str, ...]
    marks: tuple[str, ...] = ()  # ours: retracted, brought, how a run ended
    brought: bool = False  # a packet that was not retrieved


@dataclass(frozen=True, slots=True)
class SheetSources:
    """Everything a request goes back to, packets first."""

    found: tuple[SheetSource, ...]
    missing: tuple[str, ...]
    more: int  # not walked: there were too many

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the hosts that packets came from."""
        return tuple(sorted({source.host for source in self.found if source.host}))


@dataclass(frozen=True, slots=True)
class Component:
    """One part of a reference, decoded, and how much it could carry."""

    where: str
    raw: str  # foreign
    decoded: str  # foreign
    bits: int
    remark: str


@dataclass(frozen=True, slots=True)
class AskedUrl:
    """One URL that is asked for a reference, exactly as it is asked."""

    source: str
    host: str
    url: str  # foreign parts are percent-encoded
    after: str | None  # asked only if this source does not know the work
    verdict: str  # allow | ask | deny
    reason: str


@dataclass(frozen=True, slots=True)
class SheetReference:
    """One thing a fetch request asks for."""

    text: str  # foreign
    host: str
    components: tuple[Component, ...]
    bits: int
    asks: tuple[AskedUrl, ...] = ()


@dataclass(frozen=True, slots=True)
class SheetVerdict:
    """The decision of policy on one question, and the rule that decides."""

    question: str
    verdict: str  # allow | ask | deny | skip
    rule: str
    reason: str


@dataclass(frozen=True, slots=True)
class RuleOfTwo:
    """Which of the three risks a request combines, and whether policy allows all three."""

    external: bool
    confidential: bool
    network: bool
    allowed: bool  # policy leaves it to the approver

    @property
    def joined(self) -> bool:
        """Tell whether all three hold."""
        return self.external and self.confidential and self.network


@dataclass(frozen=True, slots=True)
class SheetEscalation:
    """Why the request is not for the lite lane; the refusal is Monty's own."""

    reason: str
    construct: str  # foreign
    line: int | None
    words: str  # foreign


@dataclass(frozen=True, slots=True)
class RingRule:
    """One of the five rules of the ring's profile; no items means none."""

    field: str
    items: tuple[str, ...]
    place: str


@dataclass(frozen=True, slots=True)
class SheetGateway:
    """The traffic that a run may have through the gateway."""

    hosts: tuple[str, ...]
    methods: tuple[str, ...]
    up: str
    down: str
    place: str
    held: bool  # by the kernel, to the addresses its hosts have when it starts


@dataclass(frozen=True, slots=True)
class Tool:
    """The parts that only a tool request has."""

    profile: str
    ring: tuple[RingRule, ...]  # empty if no executor enforces the profile
    network: str
    gateway: SheetGateway | None
    risks: str  # foreign
    escalation: SheetEscalation | None
    code: Code | None
    argv: tuple[str, ...]  # foreign
    inputs: tuple[SheetInput, ...]
    limits: tuple[Limit, ...]
    functions: tuple[SheetFunction, ...]
    outputs: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Fetch:
    """The parts that only a fetch request has."""

    want: str
    references: tuple[SheetReference, ...]


@dataclass(frozen=True, slots=True)
class Earlier:
    """The last similar request, its outcome, and the differences to this one."""

    id: str
    state: str
    created: str
    same: bool
    likeness: int  # per cent
    outcome: str  # our words; the reason of a denial is foreign and has its own field
    reason: str  # foreign
    changes: tuple[str, ...]  # our words, foreign parts quoted
    diff: tuple[str, ...]  # foreign, as `diff -u` writes it
    longer: int  # lines of the difference that are left out


@dataclass(frozen=True, slots=True)
class Standing:
    """An approval that a request has."""

    id: str
    approver: str
    not_after: str
    max_uses: int


@dataclass(frozen=True, slots=True)
class StyledSpan:
    """Characters in one style; the style is a name that `screen` knows."""

    text: str
    style: str = ""


StyledRow = tuple[StyledSpan, ...]


@dataclass(frozen=True, slots=True)
class StyledLine:
    """One line of text, with a gutter for its first row and one for the other rows."""

    spans: StyledRow = ()
    head: StyledSpan = StyledSpan("")
    again: StyledSpan = StyledSpan("")
    section: str = ""


def plain(spans: Iterable[StyledSpan]) -> str:
    """Return the characters of a line."""
    return "".join(span.text for span in spans)
