"""The rules in force one by one; imports no policy code, since the parser of every command does."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from threegate.policy.bundle import Bundle
    from threegate.policy.nodes import Value

SECTIONS: Final = (
    *("core", "fetch", "tool-exec", "handoff", "instruction-hierarchy", "signers", "gates"),
)


def rules_of(bundle: "Bundle", section: str) -> Iterator[tuple[str, str, str]]:
    """Yield file and line, path and value of each rule; a list is one rule."""
    if section == "signers":
        for entry in bundle.signers.entries:
            where = bundle.ref(section, entry.key.fingerprint)
            yield str(where), f"signers/{entry.principal}", entry.line.partition(" ")[2]
        return
    if section == "gates":
        yield from _profiles(bundle)
        return
    lines = bundle.refs[section]
    for path in sorted(lines, key=lambda path: lines[path]):
        value: Value = bundle.sections[section]
        for key in path.split("/"):
            value = value.get(key) if isinstance(value, Mapping) else None
        if value is not None and not isinstance(value, Mapping):
            where = bundle.ref(section, path)
            yield str(where), f"{section}/{path}", _shown(value)


def _profiles(bundle: "Bundle") -> Iterator[tuple[str, str, str]]:
    gates = bundle.sections["gates"]
    assert isinstance(gates, Mapping)
    for name, profile in gates.items():
        assert isinstance(profile, Mapping)
        for field, value in profile.items():
            yield "the program", f"gates/{name}/{field}", _shown(value)


def _shown(value: "Value") -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)
