"""Artifacts as inert text for people and as plain values for scripts.

SECURITY
    Opens the foreign text of artifacts for display.  Nothing here prints: `Output` spells
    out every control, bidi and invisible character of what it is given.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from threegate.artifacts import registry
from threegate.artifacts.ids import prefix_of
from threegate.artifacts.registry import FORMATS, Artifact
from threegate.base.schema import plain_record
from threegate.base.untrusted import Untrusted


@dataclass(frozen=True, slots=True)
class Shown:
    """An artifact taken apart; every text in it is foreign."""

    id: str
    title: str
    fields: Mapping[str, Any]
    sections: Mapping[str, str | list[str]]


def shown(artifact: Artifact) -> Shown:
    """Return front matter and sections as plain values."""
    artifact_id = registry.id_of(artifact)
    form = FORMATS[prefix_of(artifact_id)]
    sections: dict[str, str | list[str]] = {}
    for name, section in form.sections.items():
        value: Untrusted[str] | tuple[Untrusted[str], ...] = getattr(artifact, name)
        if isinstance(value, tuple):
            sections[section.title] = [text.open_for_display() for text in value]
        else:
            sections[section.title] = value.open_for_display()
    return Shown(artifact_id, form.title, plain_record(form.shapes, artifact), sections)


def field_lines(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield name and text of every field; a list takes one line per item."""
    for name, value in fields.items():
        if not isinstance(value, list):
            yield name, _inline(value)
        elif not value:
            yield name, "none"
        else:
            for number, item in enumerate(value):
                yield ("" if number else name), _inline(item)


def section_texts(sections: Mapping[str, str | list[str]]) -> Iterator[tuple[str, str]]:
    """Yield heading and text of every section; numbered texts one by one."""
    for title, value in sections.items():
        if isinstance(value, str):
            yield title, value
        for number, text in enumerate(value if isinstance(value, list) else (), 1):
            yield f"{title} {number}", text


def _inline(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, dict):
        return "  ".join(f"{key}={_inline(item)}" for key, item in value.items())
    if isinstance(value, list):
        return "[" + ", ".join(_inline(item) for item in value) + "]"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
