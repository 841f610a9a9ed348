"""The body of a draft: sections in any order, text as people type it.

SECURITY
    Reads text from a file the operator names.  A line inside a fence or an indented block is
    text, whatever it looks like; in a paragraph, a line that starts a heading or a fence is
    structure or an error, never text.
"""

import re
from collections.abc import Mapping
from typing import Final

from threegate.artifacts.codec import Section
from threegate.artifacts.reasons import Reason, reject
from threegate.base.text import quote

_FENCE: Final = re.compile(r"(`{3,}|~{3,})[A-Za-z0-9_+-]*\Z")
_STRUCTURE: Final = re.compile(r"#{1,6} |```|~~~")
_INDENT: Final = "    "


def read_texts(body: str, title: str, sections: Mapping[str, Section]) -> dict[str, str]:
    """Return the text of each section, empty where it may be and is left out."""
    before, found = _split_sections(body.split("\n"))
    if [line for line in before if line.strip()] not in ([], [f"# {title}"]):
        raise reject(Reason.SECTIONS, f"only `# {title}` may stand before the first section")
    texts = {}
    for name, spec in sections.items():
        lines = found.pop(spec.title, None)
        if lines is None and spec.least_chars:
            raise reject(Reason.SECTIONS, f"section {spec.title} is missing")
        texts[name] = _read_text(spec.title, lines or [])
    for heading in found:
        raise reject(Reason.SECTIONS, f"{quote(heading)} is not a section of this format")
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
                raise reject(Reason.SECTIONS, f"section {quote(heading)} stands twice")
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
        raise reject(Reason.BODY_TEXT, "Code: fence the code, or indent it by four spaces")
    for line in filled:
        if _STRUCTURE.match(line):
            raise reject(Reason.BODY_TEXT, f"{title}: {quote(line)} is no plain text; indent it")
    return "\n".join(lines)


def _read_fenced(lines: list[str], fence: str) -> str:
    ends = [number for number, line in enumerate(lines) if _closes(line, fence)]
    if not ends or ends[0] != len(lines) - 1:
        raise reject(Reason.BODY_TEXT, "Code: one fence, closed, and nothing after it")
    return "\n".join(lines[: ends[0]])


def _without_blank_ends(lines: list[str]) -> list[str]:
    filled = [number for number, line in enumerate(lines) if line.strip()]
    return lines[filled[0] : filled[-1] + 1] if filled else []
