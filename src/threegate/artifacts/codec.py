"""The one grammar of all artifacts: strict front matter, then indented text in fixed sections.

    ---
    key: <JSON value>          fixed keys, fixed order, one spelling
    ---

    # Title

    ## Section

        every line of free text is indented by four spaces

    ## Section of several texts

    ### 1

        structure stands in column 0, text never does

Because text is indented, nothing inside it can look like a heading, a key or a fence,
and every Markdown reader shows it as inert preformatted text.

SECURITY
    Reads whole artifacts from a gate or a file.  Accepts exactly what `emit` writes:
    every accepted byte string has one meaning and one name.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from operator import call
from typing import Any, Final, Generic, NoReturn, TypeVar

from threegate.artifacts.limits import MAX_FRONT_MATTER_CHARS
from threegate.artifacts.reasons import Reason, reject
from threegate.artifacts.shapes import Shape, explain, plain_record, shapes_of
from threegate.errors import ArtifactRejected
from threegate.text import first_forbidden, kind_of_forbidden, quote
from threegate.untrusted import Untrusted

A = TypeVar("A")

_OPEN: Final = "---\n"
_CLOSE: Final = "\n---\n\n"
_INDENT: Final = "    "
_INDENTED_LINE: Final = "\n" + _INDENT
# Decoded JSON holds no cycles, so the encoder need not look for them.
_encode: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False).encode
_scan: Final = json.JSONDecoder().raw_decode
_ESCAPED_CONTROLS: Final = ("\\b", "\\f", "\\n", "\\r", "\\t", "\\u")


@dataclass(frozen=True, slots=True)
class Section:
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


def section(spec: Section, doc: str) -> Any:
    """Declare a body section as a field of a dataclass."""
    return field(metadata={"section": spec, "doc": doc})


def sections_of(kind: type) -> dict[str, Section]:
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
        self._heads = tuple(f"{key}: " for key in self.keys)
        self._builders = tuple(shape.build for shape in self.shapes.values())
        self._check, self._check_text = check, check_text

    def parse(self, data: Untrusted[bytes]) -> A:
        """Return the artifact spelled by `data`, or raise `ArtifactRejected`."""
        text = decode(data, self.max_bytes)
        values, body = read_front_matter(text, self._heads)
        if values[0] != self.name:
            raise reject(Reason.UNKNOWN_FORMAT, f"format is not {self.name}")
        if self._check_text is not None:
            self._check_text(text)
        try:
            built = list(map(call, self._builders, values[1:]))
        except ArtifactRejected:
            explain(self.shapes, dict(zip(self.keys, values, strict=True)))
            raise
        artifact = self.kind(*built, *_read_body(body, self.title, self.sections.values()))
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
        lines = [f"{key}: {_encode(value)}\n" for key, value in values.items()]
        parts = [_OPEN, *lines, "---\n\n", f"# {self.title}\n"]
        parts.extend(_write_section(spec, texts[name]) for name, spec in self.sections.items())
        try:
            return "".join(parts).encode("utf-8")
        except UnicodeEncodeError as exc:  # half a surrogate pair, in a value made by a program
            raise reject(Reason.NOT_UTF8, "text that has no UTF-8 spelling") from exc

    def check(self, artifact: A) -> None:
        """Raise `ArtifactRejected` if a typed value would not be accepted when read back."""
        self.parse(Untrusted(self.emit(artifact)))


def decode(data: Untrusted[bytes], max_bytes: int) -> str:
    """Return the text of an artifact: bounded, UTF-8, no forbidden character."""
    untrusted = data.open_for_validation()
    # Cap before decode: decoding a huge body is already the attack.
    if len(untrusted) > max_bytes:
        raise reject(Reason.OVERSIZE, f"{len(untrusted)} bytes, limit {max_bytes}")
    try:
        text = untrusted.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise reject(Reason.NOT_UTF8, f"not UTF-8 at byte {exc.start}") from exc
    character = first_forbidden(untrusted)
    if character is not None:
        line = text.count("\n", 0, text.index(character)) + 1
        detail = f"{kind_of_forbidden(character)} character U+{ord(character):04X} in line {line}"
        raise reject(Reason.FORBIDDEN_CHARACTER, detail)
    return text


def read_front_matter(text: str, heads: tuple[str, ...]) -> tuple[list[Any], str]:
    """Return the values of the lines that start with `heads` (`key: `), and the body after them."""
    lines, body = split_front_matter(text)
    if len(lines) != len(heads) or not all(map(str.startswith, lines, heads)):
        _explain_keys(list(map(_key, lines)), tuple(map(_key, heads)))
    spelled = [line[len(head) :] for line, head in zip(lines, heads, strict=True)]
    values = _read_values(spelled)
    if values is None:
        _explain_values(lines)
    return values, body


def _read_values(spelled: list[str]) -> list[Any] | None:
    """Return the value in each line, or None if one is not a single canonical value."""
    try:
        # Line by line: read as one list, `["a"` and `"b"]` in two lines would be one value
        # and `null, null` in a third would make up for the missing one.
        values = [value for value, _ in map(_scan, spelled)]
        canonical = _encode(values)
    except (ValueError, RecursionError):  # 1e999 has no spelling; "[" * 100_000 is 100 kB
        return None
    line = ", ".join(spelled)
    # Every line starts with a whole value, and all of them are spelled as these values are:
    # so nothing stands after a value, and no value is spelled in another way.
    if canonical != f"[{line}]":
        return None
    if "\\" in line:
        _refuse_escaped_controls(line)
    return values


def split_front_matter(text: str) -> tuple[list[str], str]:
    """Return the lines between the two `---` and what follows."""
    end = text.find(_CLOSE)
    if not text.startswith(_OPEN) or end < 0:
        raise reject(Reason.FRONT_MATTER, "no front matter between two `---` lines")
    if end > MAX_FRONT_MATTER_CHARS:
        raise reject(Reason.OVERSIZE, f"front matter over {MAX_FRONT_MATTER_CHARS} characters")
    return text[len(_OPEN) : end].split("\n"), text[end + len(_CLOSE) :]


def _key(line: str) -> str:
    return line.partition(": ")[0]


def _explain_keys(found: list[str], keys: tuple[str, ...]) -> NoReturn:
    for key in found:
        if found.count(key) > 1:
            raise reject(Reason.DUPLICATE_KEY, f"key {quote(key)} stands {found.count(key)} times")
        if key not in keys:
            plain = key.isascii() and key.replace("_", "").isalnum()
            reason = Reason.UNKNOWN_KEY if plain else Reason.FRONT_MATTER
            raise reject(reason, f"{quote(key)} is not a key of this format")
    for key in keys:
        if key not in found:
            raise reject(Reason.MISSING_KEY, f"key {key} is missing")
    raise reject(Reason.KEY_ORDER, f"the keys must stand in the order {', '.join(keys)}")


def _explain_values(lines: list[str]) -> NoReturn:
    for line in lines:
        key, _, spelled = line.partition(": ")
        try:
            value, end = _scan(spelled)
            canonical = _encode(value)
        except (ValueError, RecursionError) as exc:
            raise reject(Reason.NOT_CANONICAL, f"{key} is not a JSON value") from exc
        if end != len(spelled):
            raise reject(Reason.NOT_CANONICAL, f"{key} has something after its value")
        if canonical != spelled:
            raise reject(Reason.NOT_CANONICAL, f"{key} is not in canonical JSON spelling")
    raise reject(Reason.NOT_CANONICAL, "nested too deeply")


def _refuse_escaped_controls(spelled: str) -> None:
    # After the check for canonical spelling, only controls are still escaped by these.
    stripped = spelled.replace("\\\\", "")
    if any(escape in stripped for escape in _ESCAPED_CONTROLS):
        raise reject(Reason.FORBIDDEN_CHARACTER, "escaped control character in the front matter")


def _read_body(body: str, title: str, sections: Iterable[Section]) -> list[Any]:
    specs = list(sections)
    parts = body.split("\n## ")
    if parts[0] != f"# {title}\n" or len(parts) != len(specs) + 1:
        raise reject(Reason.SECTIONS, f"the body must be `# {title}` and {len(specs)} sections")
    return [_read_section(spec, part) for spec, part in zip(specs, parts[1:], strict=True)]


def _read_section(spec: Section, part: str) -> Any:
    head = f"{spec.title}\n"
    if not part.startswith(head):
        raise reject(Reason.SECTIONS, f"section {spec.title} is missing or not in its place")
    rest = part[len(head) :]
    if spec.most_texts is None:
        return _read_text(spec, rest)
    pieces = rest.split("\n### ")
    if pieces[0] != "" or len(pieces) - 1 > spec.most_texts:
        raise reject(
            Reason.SECTIONS, f"{spec.title} holds numbered texts, {spec.most_texts} at most"
        )
    texts = []
    for number, piece in enumerate(pieces[1:], 1):
        head = f"{number}\n"
        if not piece.startswith(head):
            detail = f"{spec.title}: text {number} is not headed `### {number}`"
            raise reject(Reason.SECTIONS, detail)
        texts.append(_read_text(spec, piece[len(head) :]))
    return tuple(texts)


def _read_text(spec: Section, rest: str) -> Untrusted[str]:
    text = ""
    if rest:
        text = rest[1 + len(_INDENT) : -1].replace(_INDENTED_LINE, "\n")
        # What the replacement took away is the indent of every line after the first.
        spelled = len(text) + len(_INDENT) * (text.count("\n") + 1) + 2
        if not (
            text
            and len(rest) == spelled
            and rest.startswith(_INDENTED_LINE)
            and rest.endswith("\n")
        ):
            detail = f"{spec.title}: text that is not indented by four spaces"
            raise reject(Reason.BODY_TEXT, detail)
    if not spec.least_chars <= len(text) <= spec.most_chars:
        limits = f"{spec.least_chars} to {spec.most_chars}"
        detail = f"{spec.title}: {len(text)} characters, not {limits}"
        raise reject(Reason.OUT_OF_RANGE, detail)
    return Untrusted(text)


def _write_text(text: str) -> str:
    return _INDENTED_LINE + text.replace("\n", _INDENTED_LINE) + "\n" if text else ""


def _write_section(spec: Section, value: Any) -> str:
    head = f"\n## {spec.title}\n"
    if spec.most_texts is None:
        return head + _write_text(value.open_for_validation())
    texts = [f"\n### {n}\n" + _write_text(t.open_for_validation()) for n, t in enumerate(value, 1)]
    return head + "".join(texts)
