"""Where the objects of a git repository are, and which commit a name means.

Only `HEAD`, files below `refs/` and `packed-refs` are read here. Objects are read in a sandbox;
hooks, configuration, attributes and the working tree are not read at all.

SECURITY
    Reads small files of a directory whose owner may be anybody, without following links, and
    compares them with one grammar.  What names another directory is refused: a `.git` file, a
    `commondir`, a linked `objects`.  So a repository cannot show the sandbox other files.
"""

import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from threegate.base.errors import ArtifactRejected, UsageError
from threegate.base.limits import KIB, MIB
from threegate.base.text import quote
from threegate.host.importing.selection import FoundFile, Root, read, root_of

NOT_A_REPOSITORY: Final = "TG-GIT-001"
NO_SUCH_REVISION: Final = "TG-GIT-002"
MAX_REF_BYTES: Final = 4 * KIB
MAX_PACKED_REFS_BYTES: Final = 64 * MIB
MAX_REF_STEPS: Final = 5
_ID: Final = re.compile("[0-9a-f]{40}(?:[0-9a-f]{24})?")
_BEGINNING: Final = re.compile("[0-9a-f]{4,64}")
_NAME: Final = re.compile(r"[A-Za-z0-9_@+=,-][A-Za-z0-9_.@+=,-]*(?:/[A-Za-z0-9_@+=,-][\w.@+=,-]*)*")
_PLACES: Final = ("{}", "refs/{}", "refs/tags/{}", "refs/heads/{}", "refs/remotes/{}")
_REVISIONS: Final = "a branch, a tag or the beginning of a commit's id; `git rev-parse` finds it"


@dataclass(frozen=True, slots=True)
class GitRepository:
    """A repository whose objects can be read."""

    root: Root  # its git directory
    has_alternates: bool

    @property
    def objects(self) -> Path:
        """Return the directory that the sandbox sees."""
        return self.root.path / "objects"

    @property
    def sha256(self) -> bool:
        """Tell whether ids are SHA-256, as those of its references are."""
        known = self._resolved("HEAD") or next(iter(self._packed().values()), "")
        return len(known) == 64

    def resolve(self, revision: str) -> str:
        """Return the id, or the beginning of one, that a revision means; raise `UsageError`."""
        if _NAME.fullmatch(revision) and ".." not in revision:
            for place in _PLACES:
                found = self._resolved(place.format(revision))
                if found is not None:
                    return found
        if _BEGINNING.fullmatch(revision):
            return revision
        raise UsageError(
            f"{quote(revision)} is not a revision of the repository",
            code=NO_SUCH_REVISION,
            hint=_REVISIONS,
        )

    def _resolved(self, name: str) -> str | None:
        for _ in range(MAX_REF_STEPS):
            text = self._text(name, MAX_REF_BYTES)
            if text is None:
                return self._packed().get(name)
            target = text.removeprefix("ref: ").strip()
            if target == text.strip():
                return target if _ID.fullmatch(target) else None
            if not target.startswith("refs/") or not _NAME.fullmatch(target) or ".." in target:
                return None
            name = target
        return None

    def _packed(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for line in (self._text("packed-refs", MAX_PACKED_REFS_BYTES) or "").splitlines():
            name_id, _, name = line.partition(" ")
            if _ID.fullmatch(name_id):
                found[name] = name_id
        return found

    def _text(self, name: str, most_bytes: int) -> str | None:
        """Return a small file of the git directory, or None if it is not there."""
        try:
            data = read(FoundFile(self.root, tuple(name.split("/")), (0, 0, 0, 0, 0)), most_bytes)
        except ArtifactRejected:
            return None
        return data.decode("utf-8", "replace")


def open_repository(path: Path) -> GitRepository:
    """Return the repository at a path, or raise `UsageError` with the reason."""
    inner = path / ".git"
    kind = _kind(inner)
    if kind == stat.S_IFREG:
        hint = "name the repository that it belongs to: `git rev-parse --git-common-dir`"
        raise _refused("its .git is a file: a worktree or a submodule", hint)
    if kind == stat.S_IFLNK:
        raise _refused("its .git is a symbolic link", "name the directory that it leads to")
    place = inner if kind == stat.S_IFDIR else path
    if _kind(place / "objects") != stat.S_IFDIR or _kind(place / "HEAD") is None:
        raise _refused("there is no git repository", "name the folder that holds .git")
    if _kind(place / "commondir") is not None:
        raise _refused("it is the directory of a worktree", "name the repository it belongs to")
    if _kind(place / "reftable") is not None:
        hint = "`git refs migrate --ref-format=files` changes it"
        raise _refused("its references are stored as reftable, which is not read", hint)
    alternates = _kind(place / "objects" / "info" / "alternates") is not None
    return GitRepository(root_of(place), alternates)


def _kind(path: Path) -> int | None:
    try:
        return stat.S_IFMT(path.lstat().st_mode)
    except (OSError, ValueError):
        return None


def _refused(why: str, hint: str) -> UsageError:
    return UsageError(why, code=NOT_A_REPOSITORY, hint=hint)
