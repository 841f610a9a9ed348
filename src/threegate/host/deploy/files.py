"""All files of one machine, and how a directory differs from them."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from threegate.base.errors import GateUnavailable, StorageFailed, UsageError
from threegate.base.text import visible
from threegate.host.deploy import containers, place
from threegate.host.deploy.firewall import firewall
from threegate.host.deploy.place import Place, parse_place
from threegate.host.deploy.squid import squid_conf
from threegate.host.deploy.units import units
from threegate.policy.bundle import Bundle, Compiled

BUNDLE: Final = "bundle.json"
NOT_IN_STEP: Final = "TG-INF-001"
_MOST_SHOWN: Final = 5


def generate(policy: Compiled, where: Place) -> dict[str, str]:
    """Return the text of every file by its path."""
    found = {
        place.FILE: where.to_bytes().decode("ascii"),
        "squid/squid.conf": squid_conf(policy, where),
        "firewall/laptop.nft": firewall(policy, where, strict=False),
        "firewall/strict.nft": firewall(policy, where, strict=True),
        "containers/compose.yaml": containers.compose(where),
        "containers/run.sh": containers.run_script(where),
        "containers/Containerfile": containers.containerfile(where),
        "containers/image.sh": containers.image_script(),
        "containers/seccomp.json": containers.seccomp(),
    }
    found |= {f"systemd/{name}": text for name, text in units(where).items()}
    if isinstance(policy, Bundle):  # read by a proxy that runs under another account
        found[BUNDLE] = policy.bundle_bytes().decode("utf-8")
    return found


def write(directory: Path, files: Mapping[str, str]) -> list[str]:
    """Write files that are not there or differ, and return their names."""
    changed = [name for name, text in files.items() if _read(directory / name) != text]
    try:
        for name in changed:
            _put(directory / name, files[name])
    except OSError as exc:
        why = os.strerror(exc.errno or 0)
        raise StorageFailed(f"cannot write into {visible(str(directory))}: {why}") from exc
    return changed


def _put(path: Path, text: str) -> None:
    """Replace one file; readable by all, because other accounts load it."""
    for above in (path.parent.parent, path.parent):
        if not above.is_dir():
            above.mkdir(mode=0o755)
            above.chmod(0o755)
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    with temporary.open("x", encoding="utf-8") as file:  # follows no link at that name
        file.write(text)
    temporary.chmod(0o755 if path.suffix == ".sh" else 0o644)
    temporary.replace(path)


def refuse_differences(directory: Path, policy: Compiled) -> int:
    """Raise `GateUnavailable` unless the files are what the policy says; return how many."""
    files = generate(policy, read_place(directory))
    wrong = [name for name, text in files.items() if _read(directory / name) != text]
    if not wrong:
        return len(files)
    more = f" and {len(wrong) - _MOST_SHOWN} more" if len(wrong) > _MOST_SHOWN else ""
    detail = f"not what the policy in force says: {', '.join(wrong[:_MOST_SHOWN])}{more}"
    hint = "`threegate infra write` writes them again; then load them"
    raise GateUnavailable(detail, code=NOT_IN_STEP, hint=hint)


def read_place(directory: Path) -> Place:
    """Return what the files of a directory were made for, or raise `UsageError`."""
    text = _read(directory / place.FILE)
    if text is None:
        hint = "`threegate infra write DIR` makes the files"
        raise UsageError(f"no {place.FILE} in {visible(str(directory))}", hint=hint)
    return parse_place(text.encode("utf-8"))


def _read(path: Path) -> str | None:
    """Return the text of a file, None if it cannot be one of ours."""
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeError):
        return None
