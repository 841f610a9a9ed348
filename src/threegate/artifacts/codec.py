"""The one grammar of all artifacts: strict front matter, then indented text in fixed sections.

    ---
    key: <JSON value>          fixed keys, fixed order, one spelling
    ---

    # Title

    ## Section

        every line of free text is indented by four spaces

    ## Section of several texts

    ### 1

        structure is in column 0, text never is

Because text is indented, nothing inside it can look like a heading, a key or a fence,
and every Markdown reader shows it as inert preformatted text.

SECURITY
    Reads whole artifacts from a gate or a file.  Accepts exactly what `emit` writes:
    every accepted byte string has one meaning and one name.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from operator import call
from typing import Any, Final, Generic, TypeVar

from threegate.artifacts.front_matter import FrontMatter, write_front_matter
from threegate.artifacts.reasons import ArtifactReason, reject, rejection
from threegate.base.errors import ArtifactRejected
from threegate.base.schema import Mismatch, Shape, first_mismatch, plain_record, shapes_of
from threegate.base.text import first_forbidden, kind_of_forbidden
from threegate.base.untrusted import Untrusted

A = TypeVar("A")

_INDENT: Final = "    "
_INDENTED_LINE: Final = "\n" + _INDENT


@dataclass(frozen=True, slots=True)
class BodySection:
    """A required H2 section: one text, or numbered texts."""

    title: str
    most_chars: int
    least_chars: int = 0
    most_texts: int | None = None  # None: a single text

    def describe(self) -> str:
        """Return the words for the field table."""
        size = f"{self.least_chars} to {self.most_chars} characters"
        return (
            f"text, {size}" if self.most_texts is None else f"up to {self.most_texts} texts, {size}"
        )


def section(spec: BodySection, doc: str) -> Any:
    """Declare a body section as a field of a dataclass."""
    return field(metadata={"section": spec, "doc": doc})


def sections_of(kind: type) -> dict[str, BodySection]:
    """Return the declared sections of a dataclass, in order."""
    return {f.name: f.metadata["section"] for f in fields(kind) if "section" in f.metadata}


class Format(Generic[A]):
    """One artifact format: its name, bounds and dataclass, able to parse and emit it."""

    def __init__(
        self,
        kind: type[A],
        *,
        prefix: str,
        version: int,
        title: str,
        max_bytes: int,
        check: Callable[[A], None],
        check_text: Callable[[str], None] | None = None,
    ) -> None:
        self.kind, self.prefix, self.title, self.max_bytes = kind, prefix, title, max_bytes
        self.name = f"{prefix}/{version}"
        self.shapes: Mapping[str, Shape] = shapes_of(kind)
        self.sections = sections_of(kind)
        self.keys = ("format", *self.shapes)
        self._front = FrontMatter(self.keys)
        self._builders = tuple(shape.build for shape in self.shapes.values())
        self._check, self._check_text = check, check_text

    def parse(self, data: Untrusted[bytes]) -> A:
        """Return the artifact spelled by `data`, or raise `ArtifactRejected`."""
        text = decode(data, self.max_bytes)
        values, body = self._front.read(text)
        if values[0] != self.name:
            raise reject(ArtifactReason.UNKNOWN_FORMAT, f"format is not {self.name}")
        if self._check_text is not None:
            self._check_text(text)
        try:
            built = list(map(call, self._builders, values[1:]))
        except Mismatch as exc:
            found = first_mismatch(self.shapes, dict(zip(self.keys, values, strict=True)))
            raise rejection(found) from exc
        try:
            texts = _read_body(body, self.title, self.sections.values())
        except ArtifactRejected as exc:
            if exc.code != ArtifactReason.BODY_TEXT.code:
                raise
            line = text[: len(text) - len(body)].count("\n") + _misplaced_line(body)
            raise reject(ArtifactReason.BODY_TEXT, f"{exc.message}, line {line}") from exc
        artifact = self.kind(*built, *texts)
        self._check(artifact)
        return artifact

    def emit(self, artifact: A, *, leave_out: tuple[str, ...] = ()) -> bytes:
        """Return the one spelling of `artifact`; `leave_out` is for content digests only.

        Checks no bounds: `check` does, by reading the bytes back.
        """
        values = {"format": self.name, **plain_record(self.shapes, artifact)}
        kept = {key: value for key, value in values.items() if key not in leave_out}
        return self.spell(kept, {name: getattr(artifact, name) for name in self.sections})

    def spell(self, values: Mapping[str, Any], texts: Mapping[str, Any]) -> bytes:
        """Return the bytes of front matter and body as they stand, valid or not."""
        parts = [write_front_matter(values), f"# {self.title}\n"]
        parts.extend(_write_section(spec, texts[name]) for name, spec in self.sections.items())
        try:
            return "".join(parts).encode("utf-8")
        except UnicodeEncodeError as exc:  # half a surrogate pair, in a value made by a program
            raise reject(ArtifactReason.NOT_UTF8, "text that has no UTF-8 spelling") from exc

    def check(self, artifact: A) -> None:
        """Raise `ArtifactRejected` if a typed value would not be accepted when read back."""
        self.parse(Untrusted(self.emit(artifact)))


def decode(data: Untrusted[bytes], max_bytes: int) -> str:
    """Return the text of an artifact: bounded, UTF-8, no forbidden character."""
    untrusted = data.open_for_validation()
    # Cap before decode: decoding a huge body is already the attack.
    if len(untrusted) > max_bytes:
        raise reject(ArtifactReason.OVERSIZE, f"{len(untrusted)} bytes, limit {max_bytes}")
    try:
        text = untrusted.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise reject(ArtifactReason.NOT_UTF8, f"not UTF-8 at byte {exc.start}") from exc
    character = first_forbidden(untrusted)
    if character is not None:
        line = text.count("\n", 0, text.index(character)) + 1
        detail = f"{kind_of_forbidden(character)} character U+{ord(character):04X} in line {line}"
        if character == "\r":
            detail += ": save it with plain line ends"
        raise reject(ArtifactReason.FORBIDDEN_CHARACTER, detail)
    return text


def _read_body(body: str, title: str, sections: Iterable[BodySection]) -> list[Any]:
    specs = list(sections)
    # The last section is read to the end: a heading too many is text in column 0, so it is
    # refused there, and a long text need not be searched for one.
    parts = body.split("\n## ", len(specs))
    if parts[0] != f"# {title}\n" or len(parts) != len(specs) + 1:
        raise _wrong_sections(title, len(specs))
    try:
        return [_read_section(spec, part) for spec, part in zip(specs, parts[1:], strict=True)]
    except ArtifactRejected as exc:
        if "\n## " in parts[-1]:
            raise _wrong_sections(title, len(specs)) from exc
        raise


def _misplaced_line(body: str) -> int:
    """Return the first line, from 1, that is neither indented text nor where it may stand."""
    lines = body.split("\n")
    heads = [line.startswith(("# ", "## ", "### ")) for line in lines]
    for at, line in enumerate(lines):
        after_head = at > 0 and heads[at - 1]
        before_head = at + 1 == len(lines) or heads[at + 1]
        indented = line.startswith(_INDENT) and not after_head
        set_off = not line and (after_head or before_head)
        if not (indented or set_off or heads[at]):
            return at + 1
    return len(lines)


def _wrong_sections(title: str, number: int) -> ArtifactRejected:
    return reject(ArtifactReason.SECTIONS, f"the body must be `# {title}` and {number} sections")


def _read_section(spec: BodySection, part: str) -> Any:
    head = f"{spec.title}\n"
    if not part.startswith(head):
        raise reject(
            ArtifactReason.SECTIONS, f"section {spec.title} is missing or not in its place"
        )
    rest = part[len(head) :]
    if spec.most_texts is None:
        return _read_text(spec, rest)
    pieces = rest.split("\n### ")
    if pieces[0] != "" or len(pieces) - 1 > spec.most_texts:
        raise reject(
            ArtifactReason.SECTIONS, f"{spec.title} holds numbered texts, {spec.most_texts} at most"
        )
    texts = []
    for number, piece in enumerate(pieces[1:], 1):
        head = f"{number}\n"
        if not piece.startswith(head):
            detail = f"{spec.title}: text {number} is not headed `### {number}`"
            raise reject(ArtifactReason.SECTIONS, detail)
        texts.append(_read_text(spec, piece[len(head) :]))
    return tuple(texts)


def _read_text(spec: BodySection, rest: str) -> Untrusted[str]:
    text = ""
    if rest:
        text, breaks = rest[1 + len(_INDENT) : -1], 0
        if "\n" in text:
            text = text.replace(_INDENTED_LINE, "\n")
            breaks = text.count("\n")
        # The replacement removed the indent of every line after the first.
        spelled = len(text) + len(_INDENT) * (breaks + 1) + 2
        if not (
            text
            and len(rest) == spelled
            and rest.startswith(_INDENTED_LINE)
            and rest.endswith("\n")
        ):
            detail = f"{spec.title}: text that is not indented by four spaces"
            raise reject(ArtifactReason.BODY_TEXT, detail)
    if not spec.least_chars <= len(text) <= spec.most_chars:
        limits = f"{spec.least_chars} to {spec.most_chars}"
        detail = f"{spec.title}: {len(text)} characters, not {limits}"
        raise reject(ArtifactReason.OUT_OF_RANGE, detail)
    return Untrusted(text)


def _write_text(text: str) -> str:
    return _INDENTED_LINE + text.replace("\n", _INDENTED_LINE) + "\n" if text else ""


def _write_section(spec: BodySection, value: Any) -> str:
    head = f"\n## {spec.title}\n"
    if spec.most_texts is None:
        return head + _write_text(value.open_for_validation())
    texts = [f"\n### {n}\n" + _write_text(t.open_for_validation()) for n, t in enumerate(value, 1)]
    return head + "".join(texts)
