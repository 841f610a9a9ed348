"""Which files of a commit an import takes, and how each becomes a packet.

SECURITY
    Works on paths and bytes of a stranger's repository.  A path is in the one spelling of packets;
    bytes are compared with fixed ones.  A wrong answer leaves a file out, which is counted, or
    imports a file nobody wanted.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from threegate.artifacts import media_types
from threegate.base.errors import ArtifactRejected
from threegate.base.limits import KIB
from threegate.base.text import FORBIDDEN
from threegate.gates.git_reader.messages import BAD_NAME, FILE, LINK, SUBMODULE, CommitListed
from threegate.host.importing.git_objects import GitObjects
from threegate.host.importing.selection import LEFT_OUT, Material, Piece, Root, matches

SHORT_COMMIT: Final = 12
DIFF_NAME: Final = "changes.diff"

_KINDS: Final = {
    BAD_NAME: "bad name",
    LINK: "symbolic link",
    SUBMODULE: "submodule",
}
VENDORED: Final = "vendored"
GENERATED: Final = "generated"
BINARY: Final = "binary"
LFS: Final = "LFS pointer"
EMPTY: Final = "empty"
_VENDORED: Final = re.compile(
    r"(?:.*/)?(?:node_modules|bower_components|vendor|vendors|third[_-]?party|external|_vendor"
    r"|site-packages|\.yarn|Pods|Carthage)/.*"
)
_GENERATED: Final = re.compile(
    r"(?:.*/)?(?:package-lock\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.yaml|Cargo\.lock"
    r"|poetry\.lock|uv\.lock|Pipfile\.lock|composer\.lock|Gemfile\.lock|go\.sum|flake\.lock"
    r"|__pycache__/.*|[^/]*\.min\.(?:js|css)|[^/]*\.(?:js|css)\.map|[^/]*_pb2(?:_grpc)?\.pyi?"
    r"|[^/]*\.pb\.(?:go|cc|h)|[^/]*\.(?:snap|svg))"
)
_GENERATED_WORDS: Final = re.compile(
    rb"(?i)@generated\b|\bgenerated (?:by|from)\b|\bcode generated .{0,80}do not edit"
)
_GENERATED_HEAD_BYTES: Final = 1 * KIB
_LFS: Final = b"version https://git-lfs.github.com/spec/v1\n"
_NO_TEXT: Final = bytes(set(range(0x20)) - set(b"\t\n\x0b\x0c\r\x1a\x1b"))
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class GitFile:
    """A text file of a commit."""

    root: Root
    commit: str
    path: str  # percent-encoded
    blob: str
    objects: GitObjects = field(repr=False)
    named: bool  # the operator asked for it: it may be generated or vendored

    @property
    def location(self) -> str:
        """Return its name below its root, the same at every commit."""
        return f"git:{self.path}"

    @property
    def reference(self) -> str:
        """Return its path and commit, for people."""
        return f"{shown_path(self.path)}@{self.commit[:SHORT_COMMIT]}"

    def material(self) -> Material:
        """Return the bytes of the file, or raise `ArtifactRejected`."""
        raw = self.objects.blob(self.blob)
        why = _left_out(raw)
        if why == GENERATED and self.named:
            why = None
        if why is not None:
            raise left_out(why)
        place = f"git:{self.commit}/{self.path}"
        piece = Piece(raw, place, source="git", read_as=media_types.TEXT)
        return Material((piece,), own_place=self.location)


@dataclass(frozen=True, slots=True)
class GitChanges:
    """The changes between two commits, as one packet."""

    root: Root
    base: str
    commit: str
    diff: bytes = field(repr=False)

    @property
    def location(self) -> str:
        """Return a name of its own for each pair of commits."""
        return f"git:{self.base}..{self.commit}/{DIFF_NAME}"

    @property
    def reference(self) -> str:
        """Return both commits, for people."""
        return f"changes {self.base[:SHORT_COMMIT]}..{self.commit[:SHORT_COMMIT]}"

    def material(self) -> Material:
        """Return the diff."""
        piece = Piece(self.diff, self.location, source="git", read_as=media_types.DIFF)
        return Material((piece,), own_place=self.location)


@dataclass(slots=True)
class GitSelection:
    """Files of a commit to import, and those that are left out with the reason."""

    files: Sequence[GitFile | GitChanges] = ()
    unusable: list[tuple[str, ArtifactRejected]] = field(default_factory=list)
    whole_roots: Sequence[Root] = ()
    skipped: list[tuple[str, str]] = field(default_factory=list)
    unwanted: int = 0  # by --paths and --exclude


def select_files(
    objects: GitObjects,
    root: Root,
    listed: CommitListed,
    *,
    paths: Sequence[str] = (),
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> GitSelection:
    """Return the files of a commit that are imported; `include` brings back what is left out."""
    found, files = GitSelection(), []
    for path, kind, blob in listed.files:
        parts = tuple(unquote(path).split("/"))
        if (paths and not matches(parts, paths)) or matches(parts, exclude):
            found.unwanted += 1
            continue
        named = matches(parts, include)
        why = _KINDS.get(kind) or (None if named else _unwanted_name(unquote(path)))
        if why is None:
            files.append(GitFile(root, listed.commit, path, blob, objects, named))
        else:
            shown = path if kind == BAD_NAME else shown_path(path)
            found.skipped.append((shown, why))
    found.files = files
    objects.want([file.blob for file in files])
    if not paths and not exclude:
        found.whole_roots = (root,)
    return found


def changed_files(
    before: GitSelection, after: GitSelection
) -> list[tuple[str, str | None, str | None]]:
    """Return path and blobs of the files that differ between two commits."""
    old = {one.path: one.blob for one in before.files if isinstance(one, GitFile)}
    new = {one.path: one.blob for one in after.files if isinstance(one, GitFile)}
    names = sorted(old.keys() | new.keys())
    rows = ((name, old.get(name), new.get(name)) for name in names)
    return [row for row in rows if row[1] != row[2]]


def left_out(why: str) -> ArtifactRejected:
    """Return the reason for a file that is left out."""
    return ArtifactRejected(why, code=LEFT_OUT)


def shown_path(path: str) -> str:
    """Return a path for people; with odd characters as the location spells it."""
    plain = unquote(path, errors="replace")
    odd = FORBIDDEN.search(plain) or set("\n\t<\ufffd") & set(plain)
    return path if odd else plain


def _unwanted_name(path: str) -> str | None:
    if _VENDORED.fullmatch(path):
        return VENDORED
    return GENERATED if _GENERATED.fullmatch(path) else None


def _left_out(raw: bytes) -> str | None:
    if not raw.strip():
        return EMPTY
    if not raw.startswith(_UTF16) and len(raw.translate(None, _NO_TEXT)) != len(raw):
        return BINARY
    if raw.startswith(_LFS):
        return LFS
    if _GENERATED_WORDS.search(raw[:_GENERATED_HEAD_BYTES]):
        return GENERATED
    return None


assert FILE not in _KINDS
