"""Drafts of requests, as an operator types them; fields with a default may be left out.

A draft looks like the request it becomes.  Keys, sections and the fields of an object may
appear in any order, a value in any JSON spelling, text as paragraphs, as an indented block
or, for code, in one fence.  The host completes it; the result keeps every rule of the
format, because it is read back from its own spelling.

SECURITY
    Reads a file the operator names, which somebody else may have written.  A draft cannot
    set what only the host knows (time, nonce, labels, sources, the code's digest).  If this
    module is wrong, the request differs from the draft; the human still reviews and signs
    the request, not the draft.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from threegate.artifacts import fetch_request, tool_request
from threegate.artifacts.codec import BodySection, Format, decode
from threegate.artifacts.fetch_request import FetchRequest
from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.limits import MAX_FRONT_MATTER_CHARS
from threegate.artifacts.reasons import ArtifactReason, reject
from threegate.artifacts.tool_request import RunLimits, ToolRequest
from threegate.base.errors import ArtifactRejected
from threegate.base.limits import MAX_REQUEST_BYTES
from threegate.base.schema import Either, ListOf, Nullable, Record, Shape, Sorted
from threegate.base.text import quote
from threegate.base.untrusted import Untrusted

# The body of a draft: sections in any order, text as people type it.
#
# SECURITY: reads text from a file that the operator names. A line inside a fence or an indented
# block is always text; in a paragraph, a line that starts a heading or a fence is
# structure or an error, never text.

_FENCE: Final = re.compile(r"(`{3,}|~{3,})[A-Za-z0-9_+-]*\Z")
_STRUCTURE: Final = re.compile(r"#{1,6} |```|~~~")
_INDENT: Final = "    "


def read_texts(body: str, title: str, sections: Mapping[str, BodySection]) -> dict[str, str]:
    """Return the text of each section, empty where it may be and is left out."""
    before, found = _split_sections(body.split("\n"))
    if [line for line in before if line.strip()] not in ([], [f"# {title}"]):
        raise reject(
            ArtifactReason.SECTIONS, f"only `# {title}` may stand before the first section"
        )
    texts = {}
    for name, spec in sections.items():
        lines = found.pop(spec.title, None)
        if lines is None and spec.least_chars:
            raise reject(ArtifactReason.SECTIONS, f"section {spec.title} is missing")
        texts[name] = _read_text(spec.title, lines or [])
    for heading in found:
        raise reject(ArtifactReason.SECTIONS, f"{quote(heading)} is not a section of this format")
    return texts


def _split_sections(lines: list[str]) -> tuple[list[str], dict[str, list[str]]]:
    before: list[str] = []
    found: dict[str, list[str]] = {}
    current, fence = before, ""
    for line in lines:
        if fence:
            fence = "" if _closes(line, fence) else fence
        elif line.startswith("## "):
            heading = line[3:].strip()
            if heading in found:
                raise reject(ArtifactReason.SECTIONS, f"section {quote(heading)} stands twice")
            current = found[heading] = []
            continue
        elif match := _FENCE.match(line):
            # In a fence, `## step two` is a comment of the program.
            fence = match.group(1)
        current.append(line)
    return before, found


def _closes(line: str, fence: str) -> bool:
    return line.rstrip().startswith(fence) and not line.rstrip().strip(fence[0])


def _read_text(title: str, lines: list[str]) -> str:
    lines = _without_blank_ends(lines)
    if lines and title == "Code" and (match := _FENCE.match(lines[0])):
        return _read_fenced(lines[1:], match.group(1))
    filled = [line for line in lines if line.strip()]
    if all(line.startswith(_INDENT) for line in filled):
        return "\n".join(line[len(_INDENT) :] for line in lines)
    if title == "Code":
        raise reject(ArtifactReason.BODY_TEXT, "Code: fence the code, or indent it by four spaces")
    for line in filled:
        if _STRUCTURE.match(line):
            raise reject(
                ArtifactReason.BODY_TEXT, f"{title}: {quote(line)} is not plain text; indent it"
            )
    return "\n".join(lines)


def _read_fenced(lines: list[str], fence: str) -> str:
    ends = [number for number, line in enumerate(lines) if _closes(line, fence)]
    if not ends or ends[0] != len(lines) - 1:
        raise reject(ArtifactReason.BODY_TEXT, "Code: one fence, closed, and nothing after it")
    return "\n".join(lines[: ends[0]])


def _without_blank_ends(lines: list[str]) -> list[str]:
    filled = [number for number, line in enumerate(lines) if line.strip()]
    return lines[filled[0] : filled[-1] + 1] if filled else []


HOST_KEYS: Final = ("created", "nonce", "integrity", "derived_from", "code_sha256")
_FORMATS: Final[dict[str, Format[Any]]] = {
    item.FORMAT.name: item.FORMAT for item in (fetch_request, tool_request)
}
_FIRST_LINE: Final = re.compile(rb'\A---\nformat: *"(?:fr|tr)/1" *(?:\n|\Z)')
_STAMPS: Final = (b"\ncreated:", b"\nnonce:")


@dataclass(frozen=True, slots=True)
class LaneDefaults:
    """Defaults for the fields that a draft leaves out, for one backend."""

    profile: str
    limits: RunLimits


# The same as in the default policy; the host passes what the policy in force says.
LANES: Final[Mapping[str, LaneDefaults]] = {
    "monty": LaneDefaults("pure", RunLimits(2000, 64 * 2**20, 256 * 2**10, 500, 1, 1, 0)),
    "era": LaneDefaults("python", RunLimits(60_000, 2**30, 256 * 2**10, 1000, 1, 64, 64 * 2**20)),
}


def is_draft(data: Untrusted[bytes]) -> bool:
    """Tell an operator's draft from a stored request, which has both stamps of the host."""
    head = data.open_for_validation()[: 4 * MAX_FRONT_MATTER_CHARS].partition(b"\n---\n")[0]
    return _FIRST_LINE.match(head) is not None and not all(stamp in head for stamp in _STAMPS)


def complete_draft(
    data: Untrusted[bytes], *, created: str, nonce: str, lanes: Mapping[str, LaneDefaults] = LANES
) -> FetchRequest | ToolRequest:
    """Return the request that a draft stands for, or raise `ArtifactRejected`."""
    text = decode(data, MAX_REQUEST_BYTES)
    try:
        lines, body = _split(text)
        given = _read_keys(lines)
        form = _form_of(given)
        texts = read_texts(body, form.title, form.sections)
    except RecursionError as exc:
        raise _too_deep() from exc
    return complete(given, texts, created=created, nonce=nonce, lanes=lanes)


def complete(
    given: Mapping[str, Any],
    texts: Mapping[str, str],
    *,
    created: str,
    nonce: str,
    lanes: Mapping[str, LaneDefaults] = LANES,
    derived_from: Sequence[str] = (),
) -> FetchRequest | ToolRequest:
    """Return the request that the keys and texts of a draft stand for.

    Each text is kept character for character.  The host gives `derived_from`: the packets whose
    raw bytes are inputs.  Raises `ArtifactRejected`.
    """
    try:
        form = _form_of(given)
        stamps: dict[str, Any] = {"created": created, "nonce": nonce, "origin": "operator"}
        stamps["derived_from"] = list(derived_from)
        values = {**_defaults(form, given, lanes), **stamps, **_derived(form, given, texts)}
        if derived_from:  # packets are external, and so are their bytes
            values["integrity"] = "external"
        values = _in_order(form, values)
        boxed = {name: Untrusted(text) for name, text in texts.items()}
        spelled = form.spell(values, boxed)
    except RecursionError as exc:
        raise _too_deep() from exc
    request: FetchRequest | ToolRequest = form.parse(Untrusted(spelled))
    return request


def _too_deep() -> ArtifactRejected:
    return reject(ArtifactReason.NOT_CANONICAL, "nested too deeply")


def _split(text: str) -> tuple[list[str], str]:
    front, line, body = text.partition("\n---\n")
    if not front.startswith("---\n") or not line:
        raise reject(ArtifactReason.FRONT_MATTER, "no front matter between two `---` lines")
    return front.split("\n")[1:], body


def _read_keys(lines: list[str]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for line in lines:
        key, colon, spelled = line.partition(":")
        if not colon or not key.isidentifier():
            raise reject(ArtifactReason.FRONT_MATTER, f"{quote(line)} is not `key: JSON`")
        if key in given:
            raise reject(ArtifactReason.DUPLICATE_KEY, f"key {quote(key)} stands twice")
        try:
            given[key] = json.loads(
                spelled, object_pairs_hook=_object, parse_float=_refuse, parse_constant=_refuse
            )
        except ValueError as exc:
            raise reject(ArtifactReason.NOT_CANONICAL, f"{quote(key)} is not a JSON value") from exc
    return given


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise reject(ArtifactReason.DUPLICATE_KEY, "an object names a field twice")
    return found


def _refuse(token: str) -> Any:
    raise reject(ArtifactReason.WRONG_TYPE, f"{quote(token)} is not a whole number")


def _form_of(given: Mapping[str, Any]) -> Format[Any]:
    named = given.get("format")
    form = _FORMATS.get(named) if isinstance(named, str) else None
    if form is None or next(iter(given)) != "format":
        raise reject(
            ArtifactReason.UNKNOWN_FORMAT, 'a draft starts with `format: "fr/1"` or `"tr/1"`'
        )
    for key, value in given.items():
        if key not in form.keys:
            raise reject(ArtifactReason.UNKNOWN_KEY, f"{quote(key)} is not a key of this format")
        if key in HOST_KEYS or (key == "origin" and value != "operator"):
            raise reject(ArtifactReason.HOST_FIELD, f"key {key} is not the draft's to set")
    return form


def _defaults(
    form: Format[Any], given: Mapping[str, Any], lanes: Mapping[str, LaneDefaults]
) -> dict[str, Any]:
    if form is fetch_request.FORMAT:
        return {"want": "metadata", "confidentiality": "public", **given}
    backend = given.get("backend", "monty")
    backend = "era" if backend == "ERA" else backend
    lane = lanes.get(backend) if isinstance(backend, str) else None
    lane = lane or lanes["monty"]  # an unknown backend is refused by the format
    values: dict[str, Any] = {key: [] for key in ("argv", "inputs", "functions", "outputs")}
    values |= {"profile": lane.profile, "network": "none", "confidentiality": "internal"}
    values |= {"why_not_monty": None, **given, "backend": backend}
    if isinstance(values["inputs"], list):
        values["inputs"] = [_filled(item, {"file": None}) for item in values["inputs"]]
    values["limits"] = _filled(given.get("limits", {}), asdict(lane.limits))
    values["why_not_monty"] = _filled(values["why_not_monty"], {"refusal": None})
    return values


def _filled(value: Any, defaults: dict[str, Any]) -> Any:
    return {**defaults, **value} if isinstance(value, dict) else value


def _derived(
    form: Format[Any], given: Mapping[str, Any], texts: Mapping[str, str]
) -> dict[str, Any]:
    if form is fetch_request.FORMAT:
        return {"integrity": "operator"}
    inputs = given.get("inputs", [])
    listed = inputs if isinstance(inputs, list) else []
    named = [item.get("artifact") for item in listed if isinstance(item, dict)]
    # Every artifact that can be an input is external; a blob is what the operator brought.
    external = any(not str(name).startswith("blob-") for name in named)
    digest = sha256_hex(texts["code"].encode("utf-8"))
    return {"integrity": "external" if external else "operator", "code_sha256": digest}


def _in_order(form: Format[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    for key in form.keys:
        if key not in values:
            raise reject(ArtifactReason.MISSING_KEY, f"key {key} is missing and has no default")
    return {key: _arrange(form.shapes.get(key), values[key]) for key in form.keys}


def _arrange(shape: Shape | None, value: Any) -> Any:
    """Return `value` with fields and sorted lists in the order of the format."""
    if isinstance(shape, Nullable) and value is not None:
        return _arrange(shape.shape, value)
    if isinstance(shape, Either):
        return _arrange(shape.record, value)
    if isinstance(shape, Record) and isinstance(value, dict):
        known = [key for key in shape.shapes if key in value]
        arranged = {key: _arrange(shape.shapes[key], value[key]) for key in known}
        return {**arranged, **value, **arranged}  # the format refuses unknown keys
    if isinstance(shape, ListOf) and isinstance(value, list):
        items = [_arrange(shape.shape, item) for item in value]
        return shape.arrange(items) if isinstance(shape, Sorted) else items
    return value
